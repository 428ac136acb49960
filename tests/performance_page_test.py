"""The tables of docs/performance.md, and the script that writes them."""

import importlib.util
import json
import pathlib
import sys

import pytest

from benchmarks.__main__ import BENCHMARKS

ROOT = pathlib.Path(__file__).resolve().parents[1]
RESULTS = ROOT / "docs" / "results" / "performance"
SCORES = ROOT / "docs" / "results" / "time_to_score"
ATARI = ROOT / "docs" / "results" / "atari"
ON_THE_PAGE = set(BENCHMARKS) - {"time_to_score", "atari"}  # which have separate pages
REPORT = {
    "benchmark": "env",
    "command": "scripts/bench.sh env",
    "version": "0.1",
    "commit": None,
    "libraries": {"numpy": "2.0"},
    "hardware": {"cores": 2, "processor": "Abacus", "accelerators": []},
    "date": "2026-01-02T03:04:05+00:00",
    "result": {"suites": [{"suite": "tetris", "missing": "not here", "rates": []}]},
}


@pytest.fixture
def run(monkeypatch, tmp_path):
    """Runs the script on a page with the given text and a results folder; returns exit code and page."""
    spec = importlib.util.spec_from_file_location("performance_page", ROOT / "scripts" / "performance_page.py")
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    page = tmp_path / "page.md"

    def run_script(text, *flags):
        page.write_text(text, encoding="utf-8")
        monkeypatch.setattr(sys, "argv", ["performance_page", f"--page={page}", f"--results={tmp_path}", *flags])
        return script.main(), page.read_text(encoding="utf-8")

    return run_script


@pytest.mark.parametrize(
    ("page", "results"),
    [("performance.md", RESULTS), ("results/time_to_score.md", SCORES), ("results/atari.md", ATARI)],
)
def test_the_page_is_up_to_date(run, capsys, page, results):
    code, _ = run((ROOT / "docs" / page).read_text(encoding="utf-8"), "--check", f"--results={results}")
    assert code == 0, capsys.readouterr().err


def test_each_benchmark_of_speed_has_a_full_measurement_on_the_page():
    page = (ROOT / "docs" / "performance.md").read_text(encoding="utf-8")
    assert {path.stem for path in RESULTS.glob("*.json")} == ON_THE_PAGE
    for name in ON_THE_PAGE:
        content = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))
        assert content["benchmark"] == name
        assert not content["arguments"]["quick"], f"{name}.json is of a smoke run"
        assert f"<!-- table: {name} -->" in page


def test_a_table_is_written_between_its_markers_and_nothing_else_changes(run, tmp_path):
    (tmp_path / "x.json").write_text(json.dumps(REPORT))
    code, page = run("before\n<!-- table: x -->\nold\n<!-- end -->\nafter\n")
    assert code == 0
    assert page.startswith("before\n<!-- table: x -->\n\n```\n")
    assert "suite  threads" in page
    assert "tetris: not here\n```\n" in page
    assert "2 cores of Abacus, no accelerator; seed_rl 0.1 at an unknown commit, numpy 2.0." in page
    assert page.endswith("\n<!-- end -->\nafter\n")
    assert run(page, "--check") == (0, page)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("<!-- table: y -->\n<!-- end -->\n", "the table y has no data: y.json is missing"),
        ("<!-- table: y -->\n", "each <!-- table: NAME --> needs one <!-- end --> behind it"),
        ("<!-- end -->\n", "each <!-- table: NAME --> needs one"),
    ],
)
def test_a_page_with_a_mistake_is_left_alone_with_a_sentence(run, capsys, text, sentence):
    assert run(text) == (1, text)
    err = capsys.readouterr().err
    assert sentence in err
    assert len(err.splitlines()) == 1
