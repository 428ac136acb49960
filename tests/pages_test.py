"""The parts of pages that a script writes: benchmarks, recorded runs, pretrained policies."""

import hashlib
import pathlib
import re
import subprocess
import sys

import pytest

from scripts import pages, records

ROOT = pathlib.Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"


def test_pages_are_up_to_date_and_written_from_their_data(monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "argv", ["pages.py", "--check"])
    assert pages.main() == 0
    path, data = next(iter(pages.PAGES.items()))
    emptied, parts = re.subn(r"(<!-- \w+: .* -->\n)(?s:.*?)(<!-- end -->)", r"\1\2", path.read_text(encoding="utf-8"))
    assert parts
    copy = tmp_path / "page.md"
    copy.write_text(emptied, encoding="utf-8")
    monkeypatch.setattr(pages, "PAGES", {copy: data})
    assert (pages.main(), copy.read_text(encoding="utf-8")) == (1, emptied)
    monkeypatch.setattr(sys, "argv", ["pages.py"])
    assert pages.main() == 0
    assert copy.read_text(encoding="utf-8") == path.read_text(encoding="utf-8")


def test_every_record_is_listed_and_unchanged():
    listed = records.listed()
    assert len(listed) > 400
    assert sorted(listed) == records.files()
    found = {name: hashlib.sha256((ROOT / name).read_bytes()).hexdigest() for name in listed}
    changed = [name for name, digest in listed.items() if found[name] != digest]
    assert not changed, changed


def test_new_records_are_appended_and_changed_ones_refused(monkeypatch, capsys, tmp_path):
    results = tmp_path / "docs" / "results"
    results.mkdir(parents=True)
    (tmp_path / "docs" / "pretrained").mkdir()
    monkeypatch.setattr(records, "DOCS", tmp_path / "docs")
    monkeypatch.setattr(records, "RECORDS", results / "records.sha256")
    for name in ("b.json", "a.csv", "page.md"):
        (results / name).write_text(name)
        assert records.add() == 0
    assert [*records.listed()] == ["docs/results/b.json", "docs/results/a.csv"]
    checked = subprocess.run(["sha256sum", "--check", "--quiet", records.RECORDS], cwd=tmp_path)
    assert checked.returncode == 0
    (results / "a.csv").write_text("edited")
    assert records.add() == 1
    assert "never changed, but these are: docs/results/a.csv\n" in capsys.readouterr().err


@pytest.mark.parametrize("page", [ROOT / "README.md", DOCS / "index.md"], ids=["README", "Home"])
def test_each_figure_of_the_first_pages_is_on_a_page_that_it_is_linked_to(page):
    in_a_claim = r"^(?:\|.*|- \*\*.*\n(?:  .*\n)*|\*\*.*\n(?:.+\n)*)"  # rows, bullets and steps
    claims = re.findall(in_a_claim, page.read_text(encoding="utf-8"), re.MULTILINE)
    found = []
    for claim in (each for each in claims if ".md" in each):
        links = re.findall(r"\]\(([^)#]+\.md)", claim)
        evidence = "".join((page.parent / link).read_text(encoding="utf-8") for link in links)
        words = re.sub(r"\]\([^)]*\)", "", claim)
        figures = re.findall(r"(?<![\w.-])\d+(?:\.\d+)?(?![\w.-])", words)
        missing = [each for each in figures if not re.search(rf"(?<![\d.]){re.escape(each)}(?![\d.]*\d)", evidence)]
        assert not missing, claim
        found += figures
    assert {"2.37", "22.7", "26.3", "24.9", "55.4", "46.7", "6.8"} <= set(found)
