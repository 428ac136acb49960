"""docs/cloud.md: its commands are ones that the scripts take."""

from __future__ import annotations

import pathlib
import re
import shlex

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
GUIDE = (ROOT / "docs/cloud.md").read_text(encoding="utf-8")
BLOCKS = "".join(re.findall(r"^```sh\n(.*?)^```", GUIDE, re.DOTALL | re.MULTILINE))
COMMANDS = [
    shlex.split(line.partition(" | ")[0], comments=True)
    for line in BLOCKS.replace("\\\n", " ").splitlines()
    if line.startswith("docker/")
]


def test_every_script_is_shown():
    shown = {words[0] for words in COMMANDS}
    scripts = {path.relative_to(ROOT).as_posix() for path in (ROOT / "docker").rglob("*.sh")}
    assert scripts - {"docker/common.sh"} <= shown


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_the_guides_commands_work(script, words):
    name = words[0].removeprefix("docker/")
    dry = [] if name in ("make_secrets.sh", "cloud/render_kubernetes.py") or "--dry_run" in words else ["--dry_run"]
    done = script.run(name, *words[1:], *dry)
    assert done.returncode == 0, done.stderr
    assert done.stdout or done.stderr
    assert script.records() == []
