"""The pages that scripts write from results: benchmarks on docs/performance.md and two others, runs on docs/results."""

import json
import pathlib
import re
import shutil
import sys

import pytest

from benchmarks.__main__ import BENCHMARKS
from scripts import performance_page, results_page

DOCS = pathlib.Path(__file__).resolve().parents[1] / "docs"
RESULTS = DOCS / "results" / "performance"
ON_THE_PAGE = set(BENCHMARKS) - {"time_to_score", "atari"}  # which have separate pages
ONE_TABLE = "<!-- table: env -->\n<!-- end -->\n"
ONE_RUN = "Before\n<!-- run: gym_pendulum -->\n<!-- end -->\nafter\n"


@pytest.fixture
def run(monkeypatch, tmp_path):
    """Runs a script on a page with the given text, with a benchmark and a recorded run; returns exit code and page."""
    page = tmp_path / "page.md"
    shutil.copy(RESULTS / "env.json", tmp_path)
    shutil.copytree(DOCS / "results" / "gym_pendulum", tmp_path / "gym_pendulum")

    def run_script(script, text, *flags):
        page.write_text(text, encoding="utf-8")
        monkeypatch.setattr(sys, "argv", ["script", f"--page={page}", *flags])
        return script.main(), page.read_text(encoding="utf-8")

    return run_script


@pytest.mark.parametrize("path", performance_page.PAGES, ids=lambda path: path.stem)
def test_a_page_of_benchmarks_is_up_to_date_and_written_from_its_results(run, path):
    page, results = path.read_text(encoding="utf-8"), f"--results={performance_page.PAGES[path]}"
    emptied, tables = re.subn(r"(<!-- (?:table|atari): .* -->\n)(?s:.*?)(<!-- end -->)", r"\1\2", page)
    assert tables >= 5
    assert run(performance_page, emptied, results) == (0, page)


def test_each_benchmark_of_speed_has_a_full_measurement_on_the_page():
    page = (DOCS / "performance.md").read_text(encoding="utf-8")
    assert {path.stem for path in RESULTS.glob("*.json")} == ON_THE_PAGE
    for name in ON_THE_PAGE:
        content = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))
        assert content["benchmark"] == name
        assert not content["arguments"]["quick"], f"{name}.json is of a smoke run"
        assert f"<!-- table: {name} -->" in page


def test_the_page_of_runs_is_up_to_date_and_written_from_their_records(run, monkeypatch, capsys):
    code, page = run(results_page, ONE_RUN)
    assert code == 0
    assert page.removeprefix("Before\n").removesuffix("after\n") in results_page.PAGE.read_text(encoding="utf-8")
    monkeypatch.setattr(sys, "argv", ["results_page.py", "--check"])
    assert results_page.main() == 0, capsys.readouterr().err


@pytest.mark.parametrize(
    ("script", "text", "flags", "sentence"),
    [
        (performance_page, ONE_TABLE, "--check", "page.md is out of date: run scripts/performance_page.py"),
        (performance_page, "<!-- table: y -->\n<!-- end -->\n", "", "the table y has no data: y.json is missing"),
        (performance_page, "<!-- table: y -->\n", "", "each <!-- table: NAME --> needs one <!-- end --> behind it"),
        (performance_page, "<!-- end -->\n", "", "each <!-- table: NAME --> needs one"),
        (results_page, "Nothing\n", "", "the page must show every recorded run, ['gym_pendulum'], but shows []"),
        (results_page, "<!-- run: gym_pendulum -->\n", "", "needs one <!-- end --> after it"),
        (results_page, ONE_RUN, "--check", "is out of date: run scripts/results_page.py"),
    ],
)
def test_a_page_with_a_mistake_is_left_alone_with_a_sentence(run, capsys, tmp_path, script, text, flags, sentence):
    results = [f"--results={tmp_path}"] if script is performance_page else []
    assert run(script, text, *flags.split(), *results) == (1, text)
    (line,) = capsys.readouterr().err.splitlines()
    assert sentence in line
