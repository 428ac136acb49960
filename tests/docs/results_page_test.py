"""The page of results, and the script that fills in the recorded runs."""

import json
import sys

import pytest

from scripts.results_page import main

ABOUT = {
    "command": "seed_rl train --gin_file=catch/vtrace (on a train)",
    "commit": "0123456789abcdef",
    "hardware": "2 cores, Abacus, no accelerator",
    "last": {"env_frames": 300_000, "seconds": 30.0, "episode_return": 0.9, "learner_updates": 900},
    "best": {"episode_return": 0.95},
}


@pytest.fixture
def run(monkeypatch, tmp_path):
    """Runs the script on a page with the given text and one recorded run, `catch`; returns exit code and page."""
    folder = tmp_path / "catch"
    folder.mkdir()
    (folder / "about.json").write_text(json.dumps(ABOUT))
    (folder / "by_hours.png").write_bytes(b"")

    def call(text, *arguments):
        page = tmp_path / "README.md"
        page.write_text(text)
        monkeypatch.setattr(sys, "argv", ["results_page.py", f"--page={page}", *arguments])
        return main(), page.read_text()

    return call


EMPTY = "Before\n<!-- run: catch -->\n<!-- end -->\nafter\n"


def test_the_page_is_up_to_date(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["results_page.py", "--check"])
    assert main() == 0, capsys.readouterr().err


def test_a_run_is_shown_with_picture_command_numbers_commit_and_hardware(run):
    code, page = run(EMPTY)
    assert code == 0
    assert page.startswith("Before\n")
    assert page.endswith("after\n")
    assert "![Learning curve](catch/by_hours.png)" in page
    assert "```sh\nseed_rl train --gin_file=catch/vtrace\n```" in page
    assert "| 300,000 | 30 s | 0.90 | 0.95 | 900 | 10,000 |" in page
    assert "Commit `012345678` on 2 cores, Abacus, no accelerator; on a train. " in page


@pytest.mark.parametrize(
    ("page", "arguments", "sentence"),
    [
        (EMPTY, ["--check"], "is out of date: run scripts/results_page.py"),
        ("Nothing\n", [], "the page must show every recorded run, ['catch'], but shows []"),
        ("<!-- run: catch -->\n", [], "needs one <!-- end --> after it"),
    ],
    ids=["out of date", "a run is missing", "an end is missing"],
)
def test_a_page_with_a_fault_is_left_alone(run, capsys, page, arguments, sentence):
    assert run(page, *arguments) == (1, page)
    assert sentence in capsys.readouterr().err
