"""What pages show as the output of commands."""

import contextlib
import io
import re
import shlex
import subprocess
from types import SimpleNamespace

import pytest

from scripts import outputs
from seed_rl.cli.main import main

WORDS = 2  # of each line: behind them are numbers, and words that depend on the machine
HERE = ("seed_rl eval", "seed_rl train")
"""Commands that need TensorFlow, which this process has; `doctor` lists what is registered here, too."""


def shape(text: str) -> list[list[str]]:
    """The first words of each line, without numbers, times and names of files."""
    return [[word for word in re.split(r"[\s,:]+", line) if word.isalpha()][:WORDS] for line in text.splitlines()]


def output(shell: list[str], cwd: str, **options) -> str:
    """As of `check_output`."""
    command, _, rest = shell[-1].partition(" | ")
    if not command.startswith(HERE):
        return subprocess.check_output(shell, cwd=cwd, **options)
    with contextlib.chdir(cwd), contextlib.redirect_stdout(io.StringIO()) as shown:
        assert main(shlex.split(command.removesuffix(" 2>/dev/null"))[1:]) == 0
    return subprocess.check_output(rest or "cat", shell=True, input=shown.getvalue(), text=True)


@pytest.mark.parametrize("page", outputs.pages(), ids=lambda page: page.stem)
def test_commands_print_what_their_page_shows(page, monkeypatch):
    monkeypatch.setattr(outputs, "subprocess", SimpleNamespace(check_output=output))
    text = page.read_text(encoding="utf-8")
    shown = [block[3] for block in outputs.BLOCK.finditer(text)]
    assert [shape(each) for each in outputs.printed(text)] == [shape(each) for each in shown]


def test_pages_show_the_outputs_of_checks_runs_and_evaluations():
    commands = " ".join(block[2] for page in outputs.pages() for block in outputs.BLOCK.finditer(page.read_text()))
    for command in (*HERE, "seed_rl doctor", "seed_rl envs check"):
        assert command in commands
