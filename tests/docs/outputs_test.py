"""What pages show as the output of commands."""

import re

import pytest

from scripts import outputs

WORDS = 2  # of each line: behind them are numbers, and words that depend on the machine


def shape(text: str) -> list[list[str]]:
    """The first words of each line, without numbers, times and names of files."""
    return [[word for word in re.split(r"[\s,:]+", line) if word.isalpha()][:WORDS] for line in text.splitlines()]


@pytest.mark.parametrize("page", outputs.pages(), ids=lambda page: page.stem)
def test_commands_print_what_their_page_shows(page):
    text = page.read_text(encoding="utf-8")
    shown = [block[3] for block in outputs.BLOCK.finditer(text)]
    assert [shape(each) for each in outputs.printed(text)] == [shape(each) for each in shown]


def test_pages_show_the_outputs_of_checks_runs_and_evaluations():
    commands = " ".join(block[2] for page in outputs.pages() for block in outputs.BLOCK.finditer(page.read_text()))
    for command in ("envs check", "train", "doctor", "eval"):
        assert f"seed_rl {command}" in commands
