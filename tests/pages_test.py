"""The parts of pages that a script writes: benchmarks, recorded runs, pretrained policies."""

import json
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

from benchmarks.__main__ import BENCHMARKS
from scripts import pages

ROOT = pathlib.Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
RESULTS = DOCS / "results" / "performance"
ON_A_PAGE = set(BENCHMARKS) - {"time_to_score", "atari"}  # which have separate pages
ONE_TABLE = "<!-- table: env -->\n<!-- end -->\n"


@pytest.fixture
def run(monkeypatch, tmp_path):
    """Runs the script on a page with the given text and data; returns exit code and page."""
    page = tmp_path / "page.md"

    def run_script(text, data, *flags):
        page.write_text(text, encoding="utf-8")
        monkeypatch.setattr(pages, "PAGES", {page: data})
        monkeypatch.setattr(sys, "argv", ["pages.py", *flags])
        return pages.main(), page.read_text(encoding="utf-8")

    return run_script


@pytest.mark.parametrize("path", pages.PAGES, ids=lambda path: path.stem)
def test_a_page_is_up_to_date_and_written_from_its_data(run, path):
    page, data = path.read_text(encoding="utf-8"), pages.PAGES[path]
    emptied, parts = re.subn(r"(<!-- \w+: .* -->\n)(?s:.*?)(<!-- end -->)", r"\1\2", page)
    assert parts
    assert run(emptied, data) == (0, page)
    assert run(page, data, "--check") == (0, page)


def test_each_benchmark_of_speed_has_a_full_measurement_on_a_page():
    files = (path for path, data in pages.PAGES.items() if data == RESULTS)
    text = "".join(path.read_text(encoding="utf-8") for path in files)
    assert {path.stem for path in RESULTS.glob("*.json")} == ON_A_PAGE
    for name in ON_A_PAGE:
        content = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))
        assert content["benchmark"] == name
        assert not content["arguments"]["quick"], f"{name}.json is of a smoke run"
        assert text.count(f"<!-- table: {name} -->") == 1


@pytest.mark.parametrize(
    ("text", "recorded", "flags", "sentence"),
    [
        (ONE_TABLE, [], ["--check"], "page.md is out of date: run scripts/pages.py"),
        ("<!-- table: y -->\n<!-- end -->\n", [], [], "the table y has no data: y.json is missing"),
        ("<!-- table: y -->\n", [], [], "each <!-- KIND: NAME --> needs one <!-- end --> behind it"),
        ("Nothing\n", ["gym_pendulum"], [], "must show every recorded run, ['gym_pendulum'], but shows []"),
    ],
)
def test_a_page_with_a_mistake_is_left_alone_with_a_sentence(run, capsys, tmp_path, text, recorded, flags, sentence):
    shutil.copy(RESULTS / "env.json", tmp_path)
    for name in recorded:
        shutil.copytree(DOCS / "results" / name, tmp_path / name)
    assert run(text, tmp_path, *flags) == (1, text)
    (line,) = capsys.readouterr().err.splitlines()
    assert sentence in line


@pytest.mark.parametrize(
    ("x", "expected"),
    [(0.0, "0"), (1e-6, "1e-6"), (2.1e-7, "3e-7"), (9.1e-5, "1e-4"), (5e-4, "5e-4"), (1.0, "1e0")],
)
def test_differences_are_rounded_up_to_a_digit(x, expected):
    assert pages.rounded_up(x) == expected


RECIPE = ("configs/atari/vtrace_fast.gin", "agents/vtrace/loss.py", "seed_rl/rl/vtrace.py", "envs/atari.py")
FORMULAS = ("agents/*/loss.py", "seed_rl/rl")
EVIDENCE = {
    "Fast on what you have": [
        ("docs/results/time_to_score/pong_features/*.json", RECIPE, "2026-11-25"),
        ("docs/results/time_to_score/pong_avx2/*.json", RECIPE, "2026-11-25"),
    ],
    "One recipe for 55 Atari games": [("docs/results/atari/atari57_5M/*.json", RECIPE, "2026-11-25")],
    "Faithful": [
        ("docs/results/faithfulness/golden.json", FORMULAS, "2026-11-27"),
        ("tests/golden/golden_test.py", (), ""),
    ],
    "Repeatable": [("tests/extras/repeating/runs_test.py", (), "")],
    "Light, robust actors": [
        ("scripts/test_images.sh", (), ""),
        ("tests/hostile/kill_test.py", (), ""),
    ],
    "It says what is wrong": [("tests/reporting/learning_test.py", (), "")],
}
"""Of each claim the tests that show it, or records, the code that they measured, and the day of its last change that
moved a figure without a word about it on the page."""
READ = "2026-11-28"
"""The day up to which later changes of this code were read, and found to move none."""
RECORDED = r'"commit": "[0-9a-f]{9,40}.*?"date": "(\d{4}-\d\d-\d\d)'


def claims(page):
    """The claims of a page: title, text, and the text of all pages that it links to."""
    for title, text in re.findall(r"^- \*\*(.*?)\*\*(.*\n(?:  .*\n)*)", page.read_text(encoding="utf-8"), re.MULTILINE):
        links = re.findall(r"\]\(([^)#]+)", text)
        yield title, text, "".join((page.parent / link).read_text(encoding="utf-8") for link in links)


@pytest.mark.parametrize("page", [ROOT / "README.md", DOCS / "index.md"], ids=["README", "Home"])
def test_each_claim_links_to_pages_that_have_its_figures_and_name_its_evidence(page):
    assert [title for title, _, _ in claims(page)] == list(EVIDENCE)
    for title, text, linked in claims(page):
        figures = re.findall(r"(?<![\w.])\d+(?:\.\d+)?(?!\w)", re.sub(r"\]\([^)]*\)", "", text))
        assert [each for each in figures if not re.search(rf"(?<![\d.]){re.escape(each)}(?![\d.]*\d)", linked)] == []
        paths = [pathlib.PurePath(files) for files, _, _ in EVIDENCE[title]]
        assert [path for path in paths if (path.parent.name if path.stem == "*" else path.stem) not in linked] == []


@pytest.mark.parametrize(
    ("files", "code", "changed"), [each for every in EVIDENCE.values() for each in every if each[1]]
)
def test_records_of_a_claim_are_no_older_than_the_code_that_they_measured(files, code, changed):
    text = "".join(path.read_text(encoding="utf-8") for path in ROOT.glob(files))
    days = re.findall(RECORDED, text, re.DOTALL)
    assert days
    assert min(days) >= changed
    assert last_change(code) <= READ, "measure again, or read the change: does it move a figure?"


def last_change(code):
    """The day of the last commit to some files; "" without a full history, where only declared days are compared."""
    git = ["git", "-C", ROOT]
    shallow = shutil.which("git") and subprocess.run(
        [*git, "rev-parse", "--is-shallow-repository"], capture_output=True
    )
    if not shallow or shallow.stdout != b"false\n":
        return ""
    return subprocess.check_output([*git, "log", "-1", "--format=%as", "--", *code], text=True).strip()
