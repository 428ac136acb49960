"""Many runs of one experiment."""

import csv
import sys

import pytest

from seed_rl.experiment import ConfigError
from seed_rl.extras.studies.sweep import Sweep, seeds_of, split_values, trials
from seed_rl.system import children

TRAIN = """
import json, signal, sys
logdir = next(argument for argument in sys.argv if argument.startswith("--logdir=")).removeprefix("--logdir=")
if "columns=3" in logdir:
    sys.exit("seed_rl train: the board is too narrow")
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
with open(f"{logdir}/metrics.jsonl", "a") as file:
    print(json.dumps({"env_frames": 960 + file.tell(), "seconds": 9.6, "episode_return": 0.5}), file=file)
if "Experiment.total_frames = 1_000_000_000" in str(sys.argv):
    signal.sigwait([signal.SIGINT])
    sys.exit(130)
"""
"""Stands in for `seed_rl train`, which the last test of search_test.py runs: writes a row, fails on a board of three
columns, and may run until stopped."""


def test_every_combination_is_run_with_every_seed_of_a_number_or_a_list():
    assert seeds_of(["3"]) == [1, 2, 3]
    assert seeds_of(["4", "7"]) == [4, 7]
    found = trials(["VTrace.entropy_cost=0.01, 0.001", "Catch.rows=7,7"], [1, 2, 1])
    assert [trial.name for trial in found] == [
        "entropy_cost=0.01_rows=7_seed=1",
        "entropy_cost=0.01_rows=7_seed=2",
        "entropy_cost=0.001_rows=7_seed=1",
        "entropy_cost=0.001_rows=7_seed=2",
    ]
    assert found[-1].bindings == ["VTrace.entropy_cost = 0.001", "Catch.rows = 7", "Experiment.seed = 2"]
    assert [trial.name for trial in trials([], [3])] == ["seed=3"]


def test_values_may_hold_commas_within_brackets_and_quotes():
    assert split_values("(1, (2,3)), [4,5],'a,)',\"c,'\"") == ["(1, (2,3))", "[4,5]", "'a,)'", '"c,\'"']


def test_values_that_look_alike_in_a_name_have_directories_of_their_own():
    long = "X.y='" + 300 * "z" + "'"
    names = [trial.name for trial in trials(["VTrace.channels=(1, 23),(12, 3),'a/b','a.b'", long], [1])]
    assert len(set(names)) == 4
    assert all(len(name) < 200 and "/" not in name and " " not in name for name in names)


@pytest.mark.parametrize("grid", [["VTrace.discount"], ["VTrace.discount=0.9,"], ["A.b=1", "A.b=2"]])
def test_a_grid_that_makes_no_sense_is_refused(grid):
    with pytest.raises(ConfigError, match="expected NAME=VALUE,VALUE|A.b twice"):
        trials(grid, [1])


def rows_of(tmp_path, trial):
    path = tmp_path / trial.name / "metrics.jsonl"
    return path.read_text().splitlines() if path.exists() else []


def run(sweep, tmp_path, trial):
    """The exit code and the messages of a sweep that is stopped as soon as a trial has one more row."""
    before, said = len(rows_of(tmp_path, trial)), []
    return sweep.run(lambda: len(rows_of(tmp_path, trial)) > before, said.append), said


def test_a_sweep_quotes_a_failed_run_and_goes_on_where_it_was_stopped(tmp_path, monkeypatch):
    (tmp_path / "train.py").write_text(TRAIN)
    program = [sys.executable, "-IS", str(tmp_path / "train.py")]
    monkeypatch.setattr(children, "seed_rl", lambda *arguments: [*program, *arguments])
    wanted = [*trials(["Catch.columns=5,3"], [1]), *trials(["Experiment.total_frames=1_000_000_000"], [2])]
    finished, failed, stopped = wanted
    failure = f"failed: {failed.name} (2 of 3): the board is too narrow"
    code, said = run(Sweep(wanted, ["--total_frames=960"], str(tmp_path), 1), tmp_path, stopped)
    assert code == 1
    assert failure in said
    assert said[-1] == f"started: {stopped.name} (3 of 3)"

    sweep = Sweep(wanted, ["--total_frames=960"], str(tmp_path), 1)
    with sweep.alone(), pytest.raises(ConfigError, match=f"^another sweep is running in {tmp_path}$"):
        run(sweep, tmp_path, stopped)
    _, said = run(sweep, tmp_path, stopped)
    assert said[0].startswith("2 of 3 runs left, 1 in parallel, in ")
    assert not any(finished.name in line for line in said)
    assert failure in said, "a failed run is tried again"
    assert len(rows_of(tmp_path, stopped)) == 2

    with open(sweep.write_results(), encoding="utf-8", newline="") as file:
        rows = {row["run"]: row for row in csv.DictReader(file)}
    assert [*rows] == [row["run"] for row in sweep.results()]
    assert [rows[trial.name]["state"] for trial in wanted] == ["finished", "failed", "unfinished"]
    assert [rows[trial.name]["failure"] for trial in wanted] == ["", "the board is too narrow", ""]
    row = rows[finished.name]
    assert (row["Catch.columns"], row["Experiment.seed"], float(row["env_frames"])) == ("5", "1", 960)
    assert sweep.table().splitlines()[-1] == f"run {failed.name}: the board is too narrow"

    _, said = run(Sweep([finished], ["--total_frames=2000"], str(tmp_path), 1), tmp_path, stopped)
    assert said[1] == f"started: {finished.name} (1 of 1)", "with other arguments a finished run is run again"
