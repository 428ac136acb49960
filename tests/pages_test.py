"""The parts of pages that a script writes: benchmarks, recorded runs, pretrained policies."""

import json
import pathlib
import re
import shutil
import sys

import pytest

from benchmarks.__main__ import BENCHMARKS
from scripts import pages

DOCS = pathlib.Path(__file__).resolve().parents[1] / "docs"
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


@pytest.mark.parametrize("page", [DOCS.parent / "README.md", DOCS / "index.md"], ids=["README", "Home"])
def test_each_figure_of_a_claim_is_on_a_page_that_the_claim_links_to(page):
    claims = re.findall(r"^- \*\*.*\n(?:  .*\n)*", page.read_text(encoding="utf-8"), re.MULTILINE)
    assert len(claims) >= 6
    for claim in claims:
        links = re.findall(r"\]\(([^)#]+)", claim)
        evidence = "".join((page.parent / link).read_text(encoding="utf-8") for link in links)
        figures = re.findall(r"(?<![\w.])\d+(?:\.\d+)?(?!\w)", re.sub(r"\]\([^)]*\)", "", claim))
        assert links
        assert [each for each in figures if not re.search(rf"(?<![\d.]){re.escape(each)}(?![\d.]*\d)", evidence)] == []
