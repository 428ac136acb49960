"""The parts of pages that a script writes: benchmarks, recorded runs, pretrained policies."""

import pathlib
import re
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
