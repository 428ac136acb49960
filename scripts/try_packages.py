"""Tries the rows of docs/guides/packages.md as they are typed, each in a new environment; some minutes for each.

.venv/bin/python scripts/try_packages.py            # all rows, or those whose name has one of the given words
.venv/bin/python scripts/try_packages.py minigrid "old gym"
"""

import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
_SMALL = ["--total_frames=20_000", "--max_minutes=1", "--gin_param=Actors.envs_per_group=4", "--quiet"]


def rows() -> list[tuple[str, list[str], list[str]]]:
    """Return name, packages to install, and flags of each row with flags."""
    text = (ROOT / "docs/guides/packages.md").read_text(encoding="utf-8")
    found = re.findall(r"^\| (.*?) \| `(.*?)` \| `(--.*)` \|$", text, re.MULTILINE)
    return [(name, shlex.split(packages), shlex.split(flags.replace("` `", " "))) for name, packages, flags in found]


def tried(packages: list[str], flags: list[str]) -> str:
    """Install seed_rl and packages in a new environment and train; return what went wrong."""
    with tempfile.TemporaryDirectory() as folder:
        uv, python = str(pathlib.Path(sys.executable).with_name("uv")), f"{folder}/env/bin/python"
        made = [uv, "venv", "--quiet", "--python", sys.executable, f"{folder}/env"]
        install = [uv, "pip", "install", "--quiet", "--python", python, str(ROOT), *packages]
        train = [f"{folder}/env/bin/seed_rl", "train", "--gin_file=gym/any", *_SMALL, *flags, f"--logdir={folder}/run"]
        for command in (made, install, train):
            done = subprocess.run(command, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True)
            if done.returncode:
                return f"{shlex.join(command)}\n{done.stdout}{done.stderr}"
        return "" if list(pathlib.Path(folder, "run/checkpoints").glob("*")) else "no update was made"


def main(words: list[str]) -> int:
    """Try the rows whose names have one of the words, or all; return the number of those that fail."""
    failed = 0
    for name, packages, flags in rows():
        if not words or any(word.lower() in name.lower() for word in words):
            wrong = tried(packages, flags)
            print(f"{'FAILS' if wrong else 'works'}  {name}  {wrong}", flush=True)
            failed += bool(wrong)
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
