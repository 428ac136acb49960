"""Learning curves as pictures."""

import itertools
import json
import re

import numpy as np
import pytest

from seed_rl.evaluation.plot import band_of, plot_curves, plot_profiles
from seed_rl.evaluation.recorded import RecordedRun, group_runs, runs_with_returns
from seed_rl.experiment import ConfigError, config_files


def write_run(directory, returns, frames=10, settings=None, seed=1, **more):
    """A run with a row of metrics for each return."""
    directory.mkdir(parents=True)
    if settings is not None:
        (directory / "config.json").write_text(json.dumps({**settings, "seed": seed}))
    rows = [
        {"env_frames": frames * (n + 1), "seconds": 60.0 * (n + 1), "episode_return": value, **more}
        for n, value in enumerate(returns)
    ]
    (directory / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(directory)


def words(path):
    """The texts of an SVG, which are written as comments beside their outlines."""
    return re.findall(r"<!-- (.*?) -->", path.read_text())


def line(*points):
    return np.array(points, float)


def labels(*runs):
    return [name for name, _ in group_runs([RecordedRun(place, [], settings) for place, settings in runs])]


def test_runs_are_named_by_the_settings_in_which_they_differ_or_by_their_directories():
    base = {"env.kind": "Atari", "env.game": "pong", "agent.cost": 0.01, "agent.units": 256}
    costly, breakout = {**base, "agent.cost": 0.1 * 3}, {**base, "env.game": "breakout"}
    found = labels(("runs/a_1", base), ("runs/a_2", base), ("runs/b", costly), ("runs/c", breakout))
    assert found == ["pong, cost = 0.01 (2 seeds)", "pong, cost = 0.3", "breakout, cost = 0.01"]
    found = [("runs/a", {"agent.dtype": "auto", "agent.dtype.chosen": chosen}) for chosen in ("float32", "bfloat16")]
    assert labels(*found) == ["dtype = float32", "dtype = bfloat16"]
    one, other = ({str(n): value for n in range(9)} for value in (1, 2))
    seeds = labels(("runs/pong_seed=1", one), ("runs/pong_seed=2", one), ("runs/deep", other))
    assert seeds == ["pong (2 seeds)", "deep"]
    assert labels(("a/pong", one), ("b/pong", other)) == ["a/pong", "b/pong"]
    nearly_equal = ("runs/a", {"x": 0.1}), ("runs/b", {"x": 0.1 + 1e-9})
    assert labels(*nearly_equal) == ["a", "b"], "rounded they would be the same"
    assert labels(("a/pong", None), ("a/pong", None)) == ["pong", "pong"], "not taken for seeds"


def test_a_mean_is_of_the_runs_that_have_values():
    x, mean = band_of([line((0, 0), (4, 4)), line((1, 3), (10, 12)), line((2, 2), (10, 10))])
    complete = (x >= 2) & (x <= 4)
    np.testing.assert_allclose(mean.value[complete], x[complete] + 2 / 3)
    np.testing.assert_allclose(mean.value[x > 4], x[x > 4] + 1)
    np.testing.assert_array_equal(np.isfinite(mean.low), complete)
    np.testing.assert_array_equal(np.isfinite(mean.high), complete)

    x, apart = band_of([line((0, 0), (1, 0)), line((2, 5), (3, 5))])
    assert np.isnan(apart.low).all()
    assert np.isnan(apart.value[(x > 1) & (x < 2)]).all()


def test_a_picture_says_what_its_curves_are(tmp_path):
    for seed, cost in ((1, 0.1), (2, 0.1), (1, 0.2)):
        evaluated = {"eval/episode_return": 150.0}
        run = write_run(tmp_path / f"runs/{cost}_{seed}", [seed, cost, 3], 1_000_000, **evaluated)
        bindings = [f"VTrace.entropy_cost = {cost}", f"Experiment.seed = {seed}"]
        config_files.save_config(config_files.load("gym/cartpole", bindings), run)
    one, again = tmp_path / "curve.svg", tmp_path / "again.svg"
    plot_curves([str(tmp_path / "runs")], [str(one), str(again)], "frames")
    text = " ".join(words(one))
    for part in ("entropy_cost = 0.1 (2 seeds)", "entropy_cost = 0.2", "2M", "dotted: 475.0", "dashed: evaluation"):
        assert part in text
    assert one.read_text() == again.read_text(), "a picture is the same each time"
    with pytest.raises(ValueError, match=r"x\.pgn has none of the extensions .*pdf, .*png, "):
        plot_curves([str(tmp_path / "runs")], [str(tmp_path / "new.png"), "x.pgn"], "frames")
    assert not (tmp_path / "new.png").exists()


def test_a_run_without_returns_is_left_out_with_a_warning(tmp_path, caplog):
    good = write_run(tmp_path / "runs/good", [1, 2])
    bad = write_run(tmp_path / "runs/sweep/bad", [])
    assert [run.place for run in runs_with_returns([str(tmp_path / "runs")])] == [good]
    assert caplog.messages == [f"{bad} is skipped: it has no episode returns yet"]


def test_tables_are_curves_and_those_of_several_seeds_are_one(tmp_path, monkeypatch):
    tables = ["pong/metrics", "pong_84/fast_seed=1_4f", "pong_84/fast_seed=2_4f", "pong_84/slow_seed=1_4f"]
    for table in (*tables, "seed=1", "seed=2"):
        path = tmp_path / f"{table}.csv"
        path.parent.mkdir(exist_ok=True)
        text = "env_frames,seconds,episode_return\n10,1.0,\n20,2.0,5.0\n30,3.0,6.0\n"
        path.write_text(text, encoding="utf-8-sig")  # as spreadsheets write it
    runs = runs_with_returns([f"{tmp_path}/{table}.csv" for table in tables])
    assert [name for name, _ in group_runs(runs)] == ["pong/metrics", "pong_84/fast_4f (2 seeds)", "pong_84/slow_4f"]
    np.testing.assert_array_equal(runs[0].points("env_frames", "episode_return"), [[20, 5], [30, 6]])
    monkeypatch.chdir(tmp_path)
    assert len(group_runs(runs_with_returns(["seed=1.csv", "seed=2.csv"]))) == 1


@pytest.mark.parametrize(
    ("table", "axis", "word"),
    [
        (b"env_frames,episode_return\n10,1,2\n", "frames", "a number in each column"),
        (b"env_frames,episode_return\n10," + b"1" * 200_000, "frames", "field larger"),
        (b"env_frames,episode_return\ninf,nan\n", "frames", "a finite env_frames"),
        (b"env_frames,episode_return\n10,1\n", "hours", "a finite seconds"),
        (b"", "frames", "no episode returns yet"),
        (None, "frames", "neither is nor contains"),
    ],
    ids=["fields", "long", "not finite", "no seconds", "empty", "no run"],
)
def test_what_cannot_be_plotted_is_a_config_error(table, axis, word, tmp_path):
    place = tmp_path / "table.csv"
    if table is not None:
        place.write_bytes(table)
    with pytest.raises(ConfigError, match=f"{tmp_path}.*{word}|{word}.*{tmp_path}") as error:
        plot_curves([str(place)], [str(tmp_path / "curve.svg")], axis)
    assert len(str(error.value)) < 500


def test_settings_become_names_as_they_are(tmp_path):
    for n, name in enumerate(("$\\frac$", "x\x1b[2J" + "y" * 100_000)):
        write_run(tmp_path / f"runs/{n}", [1, 2], settings={"env.id": name})
    plot_curves([str(tmp_path / "runs")], [str(tmp_path / "curve.svg")], "frames")
    shown = words(tmp_path / "curve.svg")
    assert "$\\frac$" in shown
    assert any(text.startswith("x\\x1b[2Jyyyyy") and len(text) < 200 for text in shown)


def test_a_profile_has_a_curve_for_the_games_of_one_agent(tmp_path):
    for game, cost in itertools.product(("pong", "breakout"), (0.1, 0.2)):
        run = write_run(tmp_path / f"runs/{game}_{cost}", [0.0, 30 * cost])
        bindings = [f"Atari.game = '{game}'", f"VTrace.entropy_cost = {cost}"]
        config_files.save_config(config_files.load(["atari/vtrace"], bindings), run)
    plot_profiles([str(tmp_path / "runs")], [str(tmp_path / "curve.svg")])
    assert {f"entropy_cost = {cost} (2 seeds)" for cost in (0.1, 0.2)} < set(words(tmp_path / "curve.svg"))


def test_a_score_is_the_last_return_normalised_and_an_environment_without_humans_has_none():
    rows = [{"episode_return": 14.6}, {"episode_return": -20.7 + 0.5 * 35.3}]
    evaluated = [{"eval/episode_return": 14.6, "episode_return": 0.0}, {"episode_return": -20.7}]
    pong, catch = (config_files.load([config]).to_json() for config in ("atari/vtrace_pong", "catch/vtrace"))
    assert RecordedRun("pong", rows, pong).last_score() == pytest.approx(50.0)
    assert RecordedRun("pong", evaluated, pong).last_score() == pytest.approx(100.0)
    for without in (RecordedRun("catch", rows, catch), RecordedRun("pong.csv", rows, None, "pong")):
        with pytest.raises(ConfigError, match="can't be normalised"):
            without.last_score()
