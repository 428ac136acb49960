"""Readings of runs, and reports."""

import pathlib
import re

import pytest

from benchmarks import BenchmarkError, atari, comparison, end_to_end, report, time_to_score
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
    labels = [comparison.label(row) for row in result["rows"]]
    assert labels == ["seed_rl", "PyTorch 2.0, float32", "PyTorch 2.0, bfloat16"]
    repeats = [row["frames"]["repeats"] for row in result["rows"]]
    assert repeats == [[2000.0] * 2, [1500.0] * 2, [1500.0] * 2]
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
    assert time_to_score.first(rows, "episode_return", 3, 4.0) == {"frames": 300, "minutes": 3.0}
    assert time_to_score.first(rows, "episode_return", 3, 6.0) is None, "9.0 is the mean of 40 episodes"
    assert time_to_score.first(rows, "eval/episode_return", 3, 4.0) is None


def test_a_seed_that_falls_short_counts_as_infinitely_late():
    seeds = [{"frames": 30, "minutes": 3.0}, None, {"frames": 10, "minutes": 9.0}]
    assert time_to_score.over_seeds(seeds) == {
        "reached": 2,
        "frames": {"median": 30, "worst": None},
        "minutes": {"median": 9.0, "worst": None},
    }
    assert time_to_score.over_seeds([None, *seeds])["frames"]["median"] is None


def test_a_report_has_rounded_results_the_commit_and_no_paths_of_its_machine():
    content = report.report("env", ["--quick"], {}, {"rates": (1234.56789, 7), "nested": {"share": 1 / 3}})
    assert content["result"] == {"rates": [1234.57, 7], "nested": {"share": 0.333333}}
    if (ROOT / ".git").exists():
        assert re.fullmatch(r"[0-9a-f]{40}\+?", content["commit"])
    given = "scripts/bench.sh comparison --torch=/opt/venv/bin/python --seconds=3 --output=docs/results/performance"
    assert report.without_paths(given) == given.replace("/opt/venv/bin/python", "PATH")


FRAMES = 6_000_000


def rows_of(frames=FRAMES, step=250_000):
    """A run in which an episode ends every 10,000 frames, with a return that is the million in which it ended."""
    total, rows = 0.0, []
    for now in range(0, frames + 1, step):
        total += step / 10_000 * ((now - 1) // 1_000_000) if now else 0.0
        row = {"env_frames": now, "seconds": now / 10_000, "episodes": now // 10_000, "total_return": total}
        rows.append({**row, "episode_return": now / 1e6, "policy/mean_value": 1.0, "learning/entropy_share": 0.9})
    return rows


def test_a_score_is_the_mean_of_the_episodes_of_the_last_million_frames():
    rows = rows_of()
    assert atari.reading(rows, 5_000_000) == {"frames": 5_000_000, "score": 4.0, "episodes": 100}
    between = {"frames": 5_600_000, "score": (25 * 4 + 75 * 5) / 100, "episodes": 100}
    assert atari.reading(rows, 5_600_000) == between, "read at the first row with as many frames, 5,750,000"
    assert atari.reading(rows, 500_000) == {"frames": 500_000, "score": 0.0, "episodes": 50}, "of all episodes"
    without = [{**row, "episodes": 7, "total_return": 70.0} for row in rows]
    assert atari.reading(without, FRAMES) == {"frames": FRAMES, "score": None, "episodes": 0}
    assert atari.summary(without, FRAMES)["best_return"] is None, "no mean was one of 100 episodes"


def test_a_run_is_read_on_the_way_and_at_its_end():
    rows = rows_of()
    rows[3] |= {"policy/mean_value": -70.0, "learning/entropy_share": 0.2}
    summary = atari.summary(rows, FRAMES)
    assert [each["frames"] for each in summary["scores"]] == [5_000_000, 6_000_000]
    assert [each["score"] for each in summary["scores"]] == [4.0, 5.0]
    assert (summary["max_abs_value"], summary["min_entropy_share"]) == (70.0, 0.2)
    assert (summary["best_return"], summary["minutes"]) == (6.0, 10.0)
    assert atari.summary(rows, 2 * FRAMES)["scores"] == summary["scores"][:1], "its end has not been reached"
    assert atari.summary([], FRAMES)["scores"] == []


def test_a_thinned_curve_has_the_last_row_of_each_stretch_and_the_extremes_of_all():
    rows = rows_of(step=10_000)
    rows[1] |= {"policy/mean_value": -70.0}
    rows[-2] |= {"learning/entropy_share": 0.2}
    thin = list(atari.thinned(rows, most=60))
    assert [row["env_frames"] for row in thin] == list(range(100_000, FRAMES + 1, 100_000))
    assert [row["max_abs_value"] for row in thin] == [70.0] + [1.0] * 59
    assert [row["min_entropy_share"] for row in thin] == [0.9] * 59 + [0.2]
    assert list(atari.thinned([])) == []
