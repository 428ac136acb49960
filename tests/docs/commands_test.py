"""The commands of README.md, CONTRIBUTING.md and docs/, as a shell understands them.

Bash runs the blocks of each page in a folder where recorders stand for all programs. What they record goes through the
real command line of `seed_rl`, with gin files, bindings and flags, up to the work of a command; quick ones also work.
"""

from __future__ import annotations

import ast
import json
import pathlib
import re
import subprocess
import sys

import pytest
import yaml

from benchmarks.__main__ import BENCHMARKS
from scripts import try_packages
from seed_rl import api
from tests.support.checked_commands import Line

ROOT = pathlib.Path(__file__).resolve().parents[2]
PLACES = (".", "docs", "docs/agents", "docs/guides", "docs/results")
PAGES = sorted({page.resolve() for place in PLACES for page in (ROOT / place).glob("*.md")})
FENCE = re.compile(r'^```(\w*)(?: title="(.*?)")?\n(.*?)^```', re.DOTALL | re.MULTILINE)
INLINE = re.compile(r"`(seed_rl\s\w+\s(?:[^`.]|\.(?!\.))*)`")
ELSEWHERE = re.compile(
    r"\.venv/|apptainer|apt-get|build/|conda|docker|gcloud|id|kubectl|openssl|pip|ray|sbatch|scripts/|taskset"
    r"|tensorboard|uv|wandb"
)
"""Beginnings of programs that need a cluster, a download, minutes or another machine, or have tests of their own."""
RECORDER = r"""
record() { printf '%s\0' "$#" "$PWD" "${PYTHONPATH-}" "$@" >>"$RECORDS"; }
command_not_found_handle() { record "$@"; [[ $1 != python ]] || echo pong; }
export -f record
export RECORDS PATH=/nowhere
set -euo pipefail
"""
STUB = '#!/bin/bash\nrecord "$0" "$@"\n[[ $0 != scripts/setup_venv.sh ]] || echo .venv\n'


def scripts(text: str) -> str:
    """All that a page tells its reader to type: blocks of sh, lines behind `$`, and the steps of a CI."""
    found = []
    for kind, title, body in FENCE.findall(text):
        if kind == "sh" and not title:
            found.append(body)
        elif not kind:
            found += [line.removeprefix("$ ") for line in re.findall(r"^\$ (?:.*\\\n)*.*\n", body, re.MULTILINE)]
        elif kind == "yaml" and title:
            found += steps(yaml.safe_load(body))
    return "\n".join(found)


def steps(part) -> list[str]:
    """The commands of a CI's description, at any depth."""
    if isinstance(part, dict):
        own = [part[key] for key in ("run", "script") if key in part]
        lines = [line for each in own for line in ([each] if isinstance(each, str) else each)]
        return lines + [line for value in part.values() for line in steps(value)]
    return [line for each in part for line in steps(each)] if isinstance(part, list) else []


def read(page: pathlib.Path, folder: pathlib.Path) -> list[Line]:
    """What a reader of a page runs, in a folder that is made to look like a clone."""
    folder.mkdir()
    (folder / "examples").symlink_to(ROOT / "examples")
    made = [ROOT / name for name in (".venv/bin/python", ".venv/bin/uv", "build/catch_actor")]
    for path in [*ROOT.glob("scripts/*"), *ROOT.glob("docker/**/*.*"), *made]:
        stub = folder / path.relative_to(ROOT)
        stub.parent.mkdir(parents=True, exist_ok=True)
        stub.write_text(STUB)
        stub.chmod(0o755)
    (folder / ".venv/bin/activate").touch()
    text = page.read_text(encoding="utf-8")
    for _, title, body in FENCE.findall(text):
        if title and "/" not in title:
            (folder / title).write_text(body)
    records = folder / "records"
    records.touch()
    environment = {"RECORDS": str(records), "VIRTUAL_ENV": ".venv"}
    shell = ["/bin/bash", "-c", RECORDER + scripts(text)]
    done = subprocess.run(shell, cwd=folder, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, ""), page
    words, found = iter(records.read_text().split("\0")[:-1]), []
    for count in words:
        place, python_path = next(words), next(words)
        found.append(Line([next(words) for _ in range(int(count))], place, python_path, is_complete=True))
    return found


@pytest.fixture(scope="module")
def recorded(tmp_path_factory) -> list[Line]:
    folder = tmp_path_factory.mktemp("pages")
    return [each for number, page in enumerate(PAGES) for each in read(page, folder / str(number))]


def of_seed_rl(recorded: list[Line]) -> list[Line]:
    """The command lines of `seed_rl` among them; `scripts/train.sh` gives its flags to `seed_rl train`."""
    lines = []
    for line in recorded:
        program, *arguments = line.arguments
        if program == "scripts/train.sh":
            usual = [] if any("gin_file" in each for each in arguments) else ["--gin_file=atari/vtrace_fast"]
            program, arguments = "seed_rl", ["train", *usual, *arguments]
        if program == "seed_rl":
            lines.append(line._replace(arguments=arguments))
    return lines


def test_every_command_is_understood_and_the_quick_ones_are_carried_out(recorded, tmp_path):
    mentioned = [each for page in PAGES for each in INLINE.findall(FENCE.sub("", page.read_text(encoding="utf-8")))]
    flags = [Line(each.split()[1:], str(tmp_path), "", each.split()[1] == "plan") for each in mentioned]
    rows = [["train", "--gin_file=gym/any", *given] for _, _, given in try_packages.rows()]
    assert len(rows) > 12
    flags += [Line(row, str(tmp_path), "", False) for row in rows]
    lines = [*of_seed_rl(recorded), *flags]
    assert len(flags) > 40
    assert sum(line.is_complete for line in flags) >= 2
    assert len(lines) > 80
    program = [sys.executable, "-m", "tests.support.checked_commands"]
    done = subprocess.run(program, input=json.dumps(lines), cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    complaints = json.loads(done.stdout)
    assert len(complaints) == len(lines)
    wrong = [f"{' '.join(line.arguments)}: {said}" for line, said in zip(lines, complaints, strict=True) if said]
    assert not wrong, "\n".join(["", *wrong])


def test_every_other_program_is_known(recorded):
    for program, *arguments in (each.arguments for each in recorded):
        assert program in ("seed_rl", "mkdir", "rm", "sleep", "python") or ELSEWHERE.match(program), program
        if program == ".venv/bin/python" and arguments[0] != "-m":
            assert (ROOT / arguments[0]).is_file()
        if program == "scripts/bench.sh":
            assert {each for each in arguments if not each.startswith("-")} <= set(BENCHMARKS), arguments


def test_python_in_the_pages_is_valid_and_takes_from_the_public_interface_what_it_has():
    taken = set()
    for page in PAGES:
        for kind, title, body in FENCE.findall(page.read_text(encoding="utf-8")):
            if kind == "python" and not title.endswith(".gin"):
                for node in ast.walk(ast.parse(body)):
                    if isinstance(node, ast.ImportFrom) and node.module == "seed_rl.api":
                        taken |= {alias.name for alias in node.names}
    assert {"Run", "load_policy", "Experiment"} <= taken <= set(api.__all__)
