"""Many runs of one experiment."""

import csv
import json
import os
import sys

import pytest

from seed_rl.experiment import ConfigError
from seed_rl.reporting import metrics
from seed_rl.studies.sweep import Sweep, seeds_of, split_values, trials
from seed_rl.system import children

ARGUMENTS = ["--total_frames=960"]

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
"""Stands in for `seed_rl train`: writes a row, fails on a board of three columns, and may run until stopped."""


@pytest.fixture(scope="module", autouse=True)
def no_training(tmp_path_factory):
    """What really runs is proven by the last test of `search_test`."""
    program = tmp_path_factory.mktemp("program") / "train.py"
    program.write_text(TRAIN)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(children, "seed_rl", lambda *arguments: [sys.executable, "-IS", str(program), *arguments])
        yield


def test_seeds_are_a_number_of_runs_or_a_list():
    assert seeds_of(["3"]) == [1, 2, 3]
    assert seeds_of(["4", "7"]) == [4, 7]


def test_every_combination_is_run_with_every_seed():
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


@pytest.mark.parametrize(
    ("grid", "sentence"),
    [
        (["VTrace.discount"], "expected NAME=VALUE,VALUE"),
        (["VTrace.discount=0.9,"], "expected NAME=VALUE,VALUE"),
        (["A.b=1", "A.b=2"], "each setting may be given once, got A.b twice"),
    ],
)
def test_a_grid_that_makes_no_sense_is_refused(grid, sentence):
    with pytest.raises(ConfigError, match=sentence):
        trials(grid, [1])


@pytest.fixture(scope="module")
def twice(tmp_path_factory):
    """A sweep of three runs of which the second fails, stopped during the third; and the same sweep once more.

    Gives its directory, and for each time its messages, exit code, results and table.
    """
    directory = tmp_path_factory.mktemp("sweep")
    wanted = trials(["Catch.columns=5,3"], [1])
    wanted.append(trials(["Experiment.total_frames=1_000_000_000"], [2])[0])
    third = str(directory / wanted[2].name)

    def frames():
        rows = metrics.read(third) if os.path.exists(f"{third}/metrics.jsonl") else []
        return max((row["env_frames"] for row in rows), default=0)

    times = []
    for _ in range(2):
        said = []
        sweep = Sweep(wanted, ARGUMENTS, str(directory), 1)
        before = frames()
        code = sweep.run(lambda before=before: frames() > before, said.append)
        sweep.write_results()
        times.append((said, code, sweep.results(), sweep.table()))
    return directory, wanted, times


def test_a_failed_run_is_quoted_and_does_not_stop_the_others(twice):
    _, wanted, ((said, code, results, table), _) = twice
    assert code == 1
    failed = next(row for row in results if row["run"] == wanted[1].name)
    assert failed["state"] == "failed"
    assert failed["failure"] == "the board is too narrow"
    assert any(line.startswith(f"failed: {wanted[1].name} (2 of 3): the board is too narrow") for line in said)
    assert table.splitlines()[-1] == f"run {wanted[1].name}: {failed['failure']}"
    assert said[-1] == f"started: {wanted[2].name} (3 of 3)"


def test_a_sweep_goes_on_where_it_was_stopped(twice):
    _, wanted, (first, second) = twice
    said = second[0]
    assert said[0].startswith("2 of 3 runs left, 1 in parallel, in ")
    assert not any(wanted[0].name in line for line in said)
    assert any(line.startswith(f"failed: {wanted[1].name}") for line in said), "a failed run is tried again"
    frames = [next(row for row in times[2] if row["run"] == wanted[2].name)["env_frames"] for times in (first, second)]
    assert frames[1] > frames[0] > 0


def test_results_are_data(twice):
    directory, wanted, (_, (_, _, results, table)) = twice
    assert json.loads((directory / "results.json").read_text()) == results
    with open(directory / "results.csv", encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["run"] for row in rows] == [row["run"] for row in results]
    finished = next(row for row in rows if row["run"] == wanted[0].name)
    assert finished["Catch.columns"] == "5"
    assert finished["Experiment.seed"] == "1"
    assert finished["state"] == "finished"
    assert float(finished["env_frames"]) >= 960
    states = {row["run"]: row["state"] for row in rows}
    assert states[wanted[2].name] == "unfinished"
    lines = table.splitlines()
    assert lines[0].split() == ["run", "state", "frames", "time", "return", "best"]
    assert max(map(len, lines[:4])) <= 100


def test_with_other_arguments_a_finished_run_is_run_again(twice):
    directory, wanted, _ = twice
    said = []
    sweep = Sweep(wanted[:1], ["--total_frames=2000"], str(directory), 1)
    assert sweep.run(lambda: False, said.append) == 0
    assert said[1] == f"started: {wanted[0].name} (1 of 1)"
