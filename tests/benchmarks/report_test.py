import json
import pathlib
import re
import subprocess

import numpy as np

from benchmarks import report
from seed_rl import __version__

ROOT = pathlib.Path(__file__).resolve().parents[2]


def test_a_report_says_what_was_measured_where_and_with_what():
    content = report.report("env", ["bench", "env", "--quick"], {"quick": True}, {"a": 1})
    assert list(content)[-1] == "result"
    assert content["command"] == "scripts/bench.sh env --quick"
    assert content["version"] == __version__
    assert content["libraries"]["numpy"] == np.__version__
    assert set(content["libraries"]) == {"tensorflow", "grpcio", "ale-py", "numpy"}
    assert content["hardware"]["cores"] >= 1
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00", content["date"])


def test_the_commit_is_that_of_the_repository_or_unknown(monkeypatch):
    if (ROOT / ".git").exists():
        assert re.fullmatch(r"[0-9a-f]{40}\+?", report.commit() or "")
    else:
        assert report.commit() is None

    def no_git(*arguments, **options):
        raise FileNotFoundError("git")

    monkeypatch.setattr(subprocess, "run", no_git)
    assert report.commit() is None


def test_numbers_have_six_digits():
    content = report.report("env", [], {}, {"rates": (1234.56789, 7), "nested": {"share": 1 / 3}})
    assert content["result"] == {"rates": [1234.57, 7], "nested": {"share": 0.333333}}


def test_a_file_is_json_and_nothing_stands_beside_it(tmp_path):
    report.write(str(tmp_path / "x.json"), {"a": [1, 2]})
    assert [(file.name, json.loads(file.read_text())) for file in tmp_path.iterdir()] == [("x.json", {"a": [1, 2]})]
