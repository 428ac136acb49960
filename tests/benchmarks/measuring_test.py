"""Readings of runs, and reports."""

import pathlib
import re

import pytest

from benchmarks import BenchmarkError, comparison, end_to_end, report, time_to_score
from benchmarks.__main__ import parse

ROOT = pathlib.Path(__file__).resolve().parents[2]


def test_a_run_counts_from_some_seconds_after_its_first_update():
    rows = [{"seconds": float(second), "learner_updates": max(0, second - 3)} for second in range(10)]
    counted = end_to_end.settled(rows, settle=2.0)
    assert [row["seconds"] for row in counted] == [7.0, 8.0, 9.0]
    assert end_to_end.settled(rows[:3], settle=0.0) == []


def test_the_ceiling_of_a_run_is_what_its_components_allow_one_after_the_other():
    networks = {"act_network": 6.0, "train_network": 6.0}
    rates = [{"env": 6.0, "act": 3.0, "train": 2.0}, {"env": 6.0, "act": 6.0, "train": 6.0}]
    found = end_to_end.shares([{**each, **networks} for each in rates], [0.5, 1.0])
    assert found["limit"]["repeats"] == pytest.approx([2.0, 2.0])
    assert found["ceiling"]["repeats"] == pytest.approx([1.0, 2.0])
    assert found["efficiency"]["repeats"] == pytest.approx([0.5, 0.5])


def test_programs_are_compared_with_what_they_print(monkeypatch, tmp_path):
    python = tmp_path / "python"
    python.write_text('#!/bin/sh\n[ "$1" = -c ] && echo 2.0+cpu || echo "warming up\n1,500 frames/s"\n')
    python.chmod(0o755)
    monkeypatch.setattr(comparison, "run_rate", lambda recipe, arguments: 500.0)
    result = comparison.measure(parse("comparison", ["--recipes=vtrace_fast", f"--torch={python}", "--repeats=2"]))
    assert [comparison.label(row) for row in result["rows"]] == [
        "seed_rl",
        "PyTorch 2.0, float32",
        "PyTorch 2.0, bfloat16",
    ]
    assert [row["frames"]["repeats"] for row in result["rows"]] == [
        [2000.0, 2000.0],
        [1500.0, 1500.0],
        [1500.0, 1500.0],
    ]
    assert "0.75" in comparison.table(result)
    for text, said in (("exit 3", "failed"), ("echo", "printed no rate"), (None, "can't be run")):
        if text is None:
            python.unlink()
        else:
            python.write_text(f"#!/bin/sh\n{text}\n")
        with pytest.raises(BenchmarkError, match=said):
            comparison.measure(parse("comparison", ["--recipes=vtrace_fast", f"--torch={python}"]))


def test_a_score_is_reached_with_the_first_row_of_a_full_window():
    rows = [
        {"env_frames": 100 * n, "seconds": 60.0 * n, "episodes": 40 * n, **returns}
        for n, returns in enumerate([{}, {"episode_return": 9.0}, {"episode_return": 3.0}, {"episode_return": 5.0}])
    ]
    assert time_to_score.first(rows, "episode_return", 4.0) == {"frames": 300, "minutes": 3.0}
    assert time_to_score.first(rows, "episode_return", 6.0) is None, "9.0 is the mean of 40 episodes"
    assert time_to_score.first(rows, "eval/episode_return", 4.0) is None


def test_a_seed_that_falls_short_counts_as_infinitely_late():
    seeds = [{"frames": 30, "minutes": 3.0}, None, {"frames": 10, "minutes": 9.0}]
    assert time_to_score.over_seeds(seeds) == {
        "reached": 2,
        "frames": {"median": 30, "worst": None},
        "minutes": {"median": 9.0, "worst": None},
    }
    assert time_to_score.over_seeds([None, *seeds])["frames"]["median"] is None


def test_a_report_has_rounded_results_and_the_commit():
    content = report.report("env", ["--quick"], {}, {"rates": (1234.56789, 7), "nested": {"share": 1 / 3}})
    assert content["result"] == {"rates": [1234.57, 7], "nested": {"share": 0.333333}}
    if (ROOT / ".git").exists():
        assert re.fullmatch(r"[0-9a-f]{40}\+?", content["commit"])


def test_a_command_is_reported_without_the_paths_of_its_machine():
    given = "scripts/bench.sh comparison --torch=/opt/venv/bin/python --seconds=3 --output=docs/results/performance"
    assert report.without_paths(given) == given.replace("/opt/venv/bin/python", "PATH")
