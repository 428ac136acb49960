"""Learning curves as pictures."""

import itertools
import json
import re

import numpy as np
import pytest
from matplotlib.image import imread

from seed_rl.experiment import ConfigError, config_files
from seed_rl.studies.plot import band_of, plot_curves, plot_profiles
from seed_rl.studies.recorded import RecordedRun, grouped


def write_run(directory, returns, frames=10, settings=None, seed=1, unfinished="", **more):
    """A run with a row of metrics for each return."""
    directory.mkdir(parents=True)
    if settings is not None:
        (directory / "config.json").write_text(json.dumps({**settings, "seed": seed}))
    rows = [
        {"env_frames": frames * (n + 1), "seconds": 60.0 * (n + 1), "episode_return": value, **more}
        for n, value in enumerate(returns)
    ]
    (directory / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows) + unfinished)
    return str(directory)


def words(path):
    """The texts of an SVG, which are written as comments beside their outlines."""
    return re.findall(r"<!-- (.*?) -->", path.read_text())


def line(*points):
    return np.array(points, float)


def labels(*runs):
    return [label for label, _ in grouped([RecordedRun(place, [], settings) for place, settings in runs])]


def test_runs_are_named_by_the_settings_in_which_they_differ():
    base = {"env.kind": "Atari", "env.game": "pong", "agent.cost": 0.01, "agent.units": 256}
    costly, breakout = {**base, "agent.cost": 0.1 * 3}, {**base, "env.game": "breakout"}
    found = labels(("runs/a_1", base), ("runs/a_2", base), ("runs/b", costly), ("runs/c", breakout))
    assert found == ["pong, cost = 0.01 (2 seeds)", "pong, cost = 0.3", "breakout, cost = 0.01"]


def test_runs_that_differ_in_much_are_named_by_their_directories():
    one = {str(n): 1 for n in range(9)}
    other = {str(n): 2 for n in range(9)}
    seeds = labels(("runs/pong_seed=1", one), ("runs/pong_seed=2", one), ("runs/deep", other))
    assert seeds == ["pong (2 seeds)", "deep"]
    assert labels(("a/pong", one), ("b/pong", other)) == ["a/pong", "b/pong"]
    nearly_equal = ("runs/a", {"x": 0.1}), ("runs/b", {"x": 0.1 + 1e-9})
    assert labels(*nearly_equal) == ["a", "b"], "rounded they would be the same"
    assert labels(("a/pong", None), ("a/pong", None)) == ["pong", "pong"], "not taken for seeds"


def test_seeds_have_their_interquartile_mean_and_its_interval():
    band = band_of([line((0, 1), (10, 1)), line((0, 3), (10, 3)), line((0, 5), (10, 5)), line((0, 90), (10, 90))])
    assert band.is_complete.all()
    np.testing.assert_allclose(band.middle, 4)
    assert (band.low[0], band.high[0]) == pytest.approx((1, 90), abs=30)
    assert band.low[0] < 4 < band.high[0]


def test_a_mean_is_of_the_runs_that_have_values():
    band = band_of([line((0, 0), (4, 4)), line((1, 3), (10, 12)), line((2, 2), (10, 10))])
    complete = (band.x >= 2) & (band.x <= 4)
    np.testing.assert_array_equal(band.is_complete, complete)
    np.testing.assert_allclose(band.middle[complete], band.x[complete] + 2 / 3)
    np.testing.assert_allclose(band.middle[band.x > 4], band.x[band.x > 4] + 1)
    np.testing.assert_array_equal(np.isfinite(band.low), complete)
    np.testing.assert_array_equal(np.isfinite(band.high), complete)

    apart = band_of([line((0, 0), (1, 0)), line((2, 5), (3, 5))])
    assert not apart.is_complete.any()
    assert np.isnan(apart.middle[(apart.x > 1) & (apart.x < 2)]).all()


@pytest.mark.parametrize(
    ("rows", "axis", "texts"),
    [(5, "frames", {"environment frames", "2M", "4M"}), (5, "hours", {"minutes"}), (90, "hours", {"hours"})],
)
def test_axes_have_units_that_fit(rows, axis, texts, tmp_path):
    run = write_run(tmp_path / "pong", range(rows), 1_000_000)
    plot_curves([run], [str(tmp_path / "curve.svg")], axis)
    assert texts <= set(words(tmp_path / "curve.svg"))


def test_all_formats_show_the_same(tmp_path):
    for seed, cost in ((1, 0.1), (2, 0.1), (1, 0.2)):
        write_run(tmp_path / f"runs/{cost}_{seed}", [seed, cost, 3], settings={"agent.cost": cost}, seed=seed)
    outputs = [tmp_path / "curve.png", tmp_path / "curve.svg", tmp_path / "again.svg"]
    plot_curves([str(tmp_path / "runs")], [str(output) for output in outputs], "frames")
    assert {
        "cost = 0.1 (2 seeds)",
        "cost = 0.2",
        "mean of 100 episodes; several seeds: interquartile mean and its 95 % interval",
    } <= set(words(outputs[1]))
    assert outputs[1].read_text() == outputs[2].read_text(), "a picture is the same each time"
    height, width = imread(outputs[0]).shape[:2]
    box = re.search(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', outputs[1].read_text())
    assert width / height == pytest.approx(float(box[1]) / float(box[2]), rel=0.01)
    colours = set(re.findall(r"stroke: (#\w+)", outputs[1].read_text().lower()))
    assert {"#0072b2", "#d55e00"} <= colours


def test_evaluation_is_dashed_and_explained(tmp_path):
    write_run(tmp_path / "runs/a", [1, 2, 3], **{"eval/episode_return": 2.0})
    plot_curves([str(tmp_path / "runs")], [str(tmp_path / "curve.svg")], "frames")
    assert {"mean of 100 episodes; dashed: evaluation, mean of 30", "a"} <= set(words(tmp_path / "curve.svg"))
    assert "stroke-dasharray" in (tmp_path / "curve.svg").read_text()


def test_the_threshold_of_a_task_is_a_line_if_all_runs_share_it(tmp_path):
    def texts(*configs):
        places = []
        for number, (config, *bindings) in enumerate(configs):
            places.append(write_run(tmp_path / f"{len(configs)}-{number}", [100.0, 200.0]))
            config_files.save_config(config_files.load([config], bindings), places[-1])
        plot_curves(places, [str(tmp_path / "p.svg")], "frames")
        return " ".join(words(tmp_path / "p.svg"))

    assert "dotted: 475.0, from which the task counts as solved" in texts(["gym/cartpole"])
    assert "dotted" not in texts(["gym/cartpole"], ["gym/acrobot"])


def test_a_run_that_was_killed_in_the_middle_of_a_line_can_be_drawn(tmp_path):
    run = write_run(tmp_path / "pong", [1, float("nan"), 3], unfinished='{"env_frames": 4')
    plot_curves([run], [str(tmp_path / "curve.png")], "frames")
    assert (tmp_path / "curve.png").stat().st_size > 1000


def test_a_run_without_returns_is_left_out_with_a_warning(tmp_path, caplog):
    write_run(tmp_path / "runs/good", [1, 2])
    write_run(tmp_path / "runs/sweep/bad", [])
    plot_curves([str(tmp_path / "runs")], [str(tmp_path / "curve.png")], "frames")
    assert [record.message for record in caplog.records] == [
        f"{tmp_path}/runs/sweep/bad is skipped: it has no episode returns yet"
    ]
    with pytest.raises(ConfigError, match="no episode returns yet in .*/bad$"):
        plot_curves([str(tmp_path / "runs/sweep")], [str(tmp_path / "curve.png")], "frames")


def test_runs_in_a_store_are_drawn_under_their_names_from_metrics_and_settings_alone(tmp_path, fetched):
    for name, cost in (("cheap", 1), ("dear", 2)):
        run = tmp_path / "runs" / name
        write_run(run, [1, 2], settings={"agent.cost": cost, "more": cost, "and": cost, "still": cost})
        write_run(run / "host-1", [5, 6])
        (run / "checkpoints").mkdir()
        (run / "checkpoints/replay-000000000001.npz").write_bytes(b"many gigabytes")
    plot_curves([f"file://{tmp_path}/runs"], [str(tmp_path / "curve.svg")], "frames")
    assert {"cheap", "dear"} <= set(words(tmp_path / "curve.svg"))
    names = ("cheap/metrics.jsonl", "cheap/config.json", "dear/metrics.jsonl", "dear/config.json")
    assert fetched == [f"{tmp_path}/runs/{name}" for name in names]
    plot_curves([f"file://{tmp_path}/runs/dear"], [str(tmp_path / "curve.svg")], "frames")
    assert "dear" in words(tmp_path / "curve.svg")


def test_a_place_without_a_run_is_an_error(tmp_path):
    (tmp_path / "config.json").write_text("{}")
    for place in (str(tmp_path), f"file://{tmp_path}"):
        with pytest.raises(ConfigError, match=f"^{place} neither is nor contains the log directory of a run"):
            plot_curves([place], [str(tmp_path / "curve.png")], "frames")
    with pytest.raises(ConfigError, match=f"^file://{tmp_path}/no can't be read: .*No such file"):
        plot_curves([f"file://{tmp_path}/no"], [str(tmp_path / "curve.png")], "frames")


def test_many_runs_are_told_apart(tmp_path):
    for n in range(9):
        write_run(tmp_path / f"runs/{n}", [n, n + 1], settings={"agent.cost": n})
    plot_curves([str(tmp_path / "runs")], [str(tmp_path / "curve.svg")], "frames")
    assert [f"cost = {n}" for n in range(9)] == sorted(text for text in words(tmp_path / "curve.svg") if "cost" in text)


def test_tables_of_published_results_can_be_drawn(tmp_path):
    (tmp_path / "pong").mkdir()
    table = tmp_path / "pong" / "metrics.csv"
    table.write_text("env_frames,seconds,episode_return\n10,1.0,\n20,2.0,5.0\n30,3.0,6.0\n")
    for place in (str(table), f"file://{table}"):
        plot_curves([place], [str(tmp_path / "curve.svg")], "frames")
        assert "pong" in words(tmp_path / "curve.svg")


def test_tables_of_several_seeds_are_one_curve(tmp_path):
    (tmp_path / "pong_84").mkdir()
    tables = [tmp_path / "pong_84" / f"{name}_4f.csv" for name in ("fast_seed=1", "fast_seed=2", "slow_seed=1")]
    for table in tables:
        table.write_text("env_frames,seconds,episode_return\n10,1.0,5.0\n30,3.0,6.0\n")
    plot_curves(list(map(str, tables)), [str(tmp_path / "curve.svg")], "frames")
    assert {"fast (2 seeds)", "slow"} <= set(words(tmp_path / "curve.svg"))


ODD_TABLES = {
    "text for a number": (b"env_frames,episode_return\n10,abc\n", "can't be read: expected a number in each column"),
    "long text": (b"env_frames,episode_return\n10," + b"x" * 9999 + b"\n", "can't be read: expected a number in each"),
    "too many fields": (b"env_frames,episode_return\n10,1,2\n", "can't be read: expected a number in each column"),
    "a field too large": (b"env_frames,episode_return\n10," + b"1" * 200_000, "can't be read: field larger than field"),
    "not UTF-8": (b"env_frames,episode_return\n10,\xff\n", "can't be read: 'utf-8' codec can't decode"),
    "UTF-16": ("env_frames,episode_return\n10,1\n".encode("utf-16"), "can't be read: 'utf-8' codec can't decode"),
    "NULs": (bytes(100), "no episode returns yet in"),
    "no frames": (b"frames,episode_return\n10,1\n", "has no row with both a return and a finite env_frames"),
    "no returns": (b"env_frames,return\n10,1\n", "no episode returns yet in"),
    "too few fields": (b"env_frames,seconds,episode_return\n10\n", "no episode returns yet in"),
    "not finite": (b"env_frames,episode_return\ninf,nan\n", "has no row with both a return and a finite env_frames"),
    "an unclosed quote": (b'env_frames,episode_return\n10,"1\n20,2\n', "can't be read: expected a number in each"),
    "nothing": (b"", "no episode returns yet in"),
}


@pytest.mark.parametrize(("content", "sentence"), ODD_TABLES.values(), ids=ODD_TABLES)
def test_a_damaged_table_is_named_in_a_sentence(content, sentence, tmp_path):
    table = tmp_path / "table.csv"
    table.write_bytes(content)
    with pytest.raises(ConfigError, match=sentence) as error:
        plot_curves([str(table)], [str(tmp_path / "curve.svg")], "frames")
    assert str(table) in str(error.value) or str(tmp_path) in str(error.value)
    assert str(error.value).isprintable()
    assert len(str(error.value)) < 500


def test_a_table_without_seconds_has_no_hours(tmp_path):
    table = tmp_path / "table.csv"
    table.write_text("env_frames,episode_return\n10,1\n")
    with pytest.raises(ConfigError, match="has no row with both a return and a finite seconds"):
        plot_curves([str(table)], [str(tmp_path / "curve.svg")], "hours")


def test_settings_become_names_as_they_are(tmp_path):
    for n, name in enumerate(("$\\frac$", "x\x1b[2J" + "y" * 100_000)):
        write_run(tmp_path / f"runs/{n}", [1, 2], settings={"env.id": name})
    plot_curves([str(tmp_path / "runs")], [str(tmp_path / "curve.svg")], "frames")
    shown = words(tmp_path / "curve.svg")
    assert "$\\frac$" in shown
    assert any(text.startswith("x\\x1b[2Jyyyyy") and len(text) < 200 for text in shown)


def test_a_profile_has_a_curve_for_the_seeds_and_games_of_one_agent(tmp_path):
    for game, cost in itertools.product(("pong", "breakout"), (0.1, 0.2)):
        for seed in (1, 2):
            run = tmp_path / f"runs/{game}_{cost}_{seed}"
            write_run(run, [0.0, 30 * cost + seed])
            bindings = [f"Atari.game = '{game}'", f"VTrace.entropy_cost = {cost}", f"Experiment.seed = {seed}"]
            config_files.save_config(config_files.load(["atari/vtrace"], bindings), str(run))
    plot_profiles([str(tmp_path / "runs")], [str(tmp_path / "curve.svg")])
    assert {
        "entropy_cost = 0.1 (4 seeds)",
        "entropy_cost = 0.2 (4 seeds)",
        "human-normalised score, %",
        "last returns; shaded: 95 % interval",
    } <= set(words(tmp_path / "curve.svg"))


def test_a_score_is_the_last_return_normalised_and_an_environment_without_humans_has_none(tmp_path):
    for name in ("pong", "catch"):
        write_run(tmp_path / name, [0.0, 14.6, -20.7 + 0.5 * 35.3])
    config_files.save_config(config_files.load(["atari/vtrace_pong"]), str(tmp_path / "pong"))
    config_files.save_config(config_files.load(["catch/vtrace"]), str(tmp_path / "catch"))
    rows = [{"episode_return": 14.6}, {"episode_return": -20.7 + 0.5 * 35.3}]
    assert RecordedRun(str(tmp_path / "pong"), rows, None).last_score() == pytest.approx(50.0)
    with pytest.raises(ConfigError, match="catch can't be normalised: its environment has no human reference score"):
        plot_profiles([str(tmp_path / "catch")], [str(tmp_path / "curve.svg")])
