"""A search for settings: its space; then curves stand for the runs; the last test trains."""

import csv
import glob
import json
import os
import statistics

import optuna
import pytest
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

from seed_rl.cli.main import main
from seed_rl.experiment import ConfigError, config_files
from seed_rl.extras.studies.runs import Run
from seed_rl.extras.studies.search import STEPS, Search, extremes, read_space, text_of
from seed_rl.system.files import locking


@pytest.mark.parametrize(
    ("text", "distribution"),
    [
        ("1e-4..1e-2", FloatDistribution(1e-4, 1e-2, log=True)),
        (" 0.01 .. 0.1 ", FloatDistribution(0.01, 0.1, log=True)),
        ("0.9..0.99", FloatDistribution(0.9, 0.99)),
        ("-1..-0.5", FloatDistribution(-1, -0.5)),
        ("1..40", IntDistribution(1, 40, log=True)),
        ("1_000..5_000", IntDistribution(1000, 5000)),
        ("16,64,16", CategoricalDistribution(["16", "64"])),
        ("(1, 2),none", CategoricalDistribution(["(1, 2)", "none"])),
    ],
)
def test_a_range_or_choices(text, distribution):
    assert read_space([f"A.b = {text}"]) == {"A.b": distribution}


@pytest.mark.parametrize(
    ("texts", "word"),
    [
        *(([text], "expected NAME=LOW..HIGH or") for text in ("A.b", "=1..2", "A.b=5,", "A.b=1e-4...2", "A.b=1_..5")),
        *(([text], "a lower to a higher finite bound") for text in ("A.b=1e-2..1e-4", "A.b=1..1e999")),
        (["A.b=1..2", "A.b=3,4"], "A.b twice"),
    ],
)
def test_a_space_that_makes_no_sense_is_refused(texts, word):
    with pytest.raises(ConfigError, match=word):
        read_space(texts)


def test_bounds_and_choices_are_what_the_experiment_must_accept():
    assert list(extremes(read_space(["A.b=1e-4..1", "A.c=x,y"]))) == ["A.b = 0.0001", "A.b = 1.0", "A.c = x", "A.c = y"]


@pytest.mark.parametrize(
    ("space", "value", "text"),
    [
        ("1e-4..1e-2", 0.00023456789, "0.000235"),
        ("0.99995..0.99999", 0.999973456, "0.9999735"),
        ("1.0..4000", 1234.5678, "1230.0"),
        ("0.0..1.0", 0.123456, "0.123"),
        ("3..5", 4, "4"),
    ],
)
def test_values_are_short_and_stay_in_their_range(space, value, text):
    assert text_of(value, read_space([f"A.b={space}"])["A.b"]) == text


FRAMES = 1000
SEARCHES = ("Catch.level=1..9", "Catch.shape=a,b")


@pytest.fixture
def trained(monkeypatch):
    """Instead of a run, a line from 0 to its level; one of level 9 fails. Returns the names of trials as they begin."""
    names = []

    def train(run, stopped, say):
        settings = run.trial.settings
        names.append(run.trial.name)
        if settings["Catch.level"] == "9":
            run.failure = "too high"
            return 3
        os.makedirs(run.logdir, exist_ok=True)
        for frames in range(0, FRAMES + 1, FRAMES // STEPS):
            score = int(settings["Catch.level"]) * frames / FRAMES
            with open(os.path.join(run.logdir, "metrics.jsonl"), "a", encoding="utf-8") as file:
                print(json.dumps({"env_frames": frames, "episode_return": score, "episodes": 200}), file=file)
            if run.is_over() or stopped():
                return 0 if run.is_over() else 130
        return 0

    monkeypatch.setattr(Run, "train", train)
    return names


def new_search(directory, trials, searches=SEARCHES, seed=1, prune_after=0.2):
    experiment = config_files.load("catch/vtrace", [f"Experiment.total_frames={FRAMES}", f"Experiment.seed={seed}"])
    return Search(searches, ["--gin_file=catch/vtrace"], str(directory), experiment, trials, prune_after)


def run(running, stopped=lambda: False):
    """Its exit code and its messages."""
    said = []
    return running.run(stopped, said.append), said


def by_number(running):
    return sorted(running.results(), key=lambda row: row["trial"])


def test_a_line_that_a_full_disk_cut_off_does_not_spoil_the_study(trained, tmp_path):
    run(new_search(tmp_path, 2))
    with open(tmp_path / "study.journal", "ab") as journal:
        journal.write(b'{"op_code": 4, "wor')
    run(new_search(tmp_path, 3))
    run(new_search(tmp_path, 4))
    assert len(trained) >= 4


def test_poor_trials_are_pruned_once_five_have_finished_and_a_fifth_of_their_frames_is_over(trained, tmp_path):
    running = new_search(tmp_path, 14)
    _, said = run(running)
    finished = []
    for row in by_number(running):
        level = int(row["Catch.level"])
        poor = len(finished) >= 5 and level < statistics.median(finished)
        if row["state"] == "failed":
            assert level == 9
        elif poor:
            assert (row["state"], row["frames"]) == ("pruned", 0.2 * FRAMES)
        else:
            assert (row["state"], row["frames"], row["score"]) == ("finished", FRAMES, level)
            finished.append(level)
    pruned = next(row for row in by_number(running) if row["state"] == "pruned")
    assert any(line.startswith(f"pruned: trial_{pruned['trial']} ") for line in said)
    unpruned = new_search(tmp_path / "whole", 14, prune_after=1)
    run(unpruned)
    assert {row["state"] for row in unpruned.results()} <= {"finished", "failed"}


def test_a_search_that_was_stopped_goes_on_as_if_it_had_not_been(trained, tmp_path):
    whole = new_search(tmp_path / "whole", 8)
    run(whole)
    del trained[:]
    polled = iter(range(10**6))
    first = new_search(tmp_path / "parts", 8)
    run(first, lambda: next(polled) > 50)
    unfinished = [row for row in first.results() if row["state"] == "unfinished"]
    assert len(unfinished) == 1
    done = [row for row in first.results() if row["state"] in ("finished", "pruned")]
    second = new_search(tmp_path / "parts", 8)
    _, said = run(second)
    assert said[0] == f"{8 - len(done)} of 8 trials left, in {tmp_path / 'parts'}"
    assert trained.count(f"trial_{unfinished[0]['trial']}") == 2
    assert by_number(second)[:8] == by_number(whole)[:8]
    other = new_search(tmp_path / "other", 8, seed=2)
    run(other)
    assert by_number(other) != by_number(whole)


def test_a_failed_trial_is_replaced_when_the_search_is_started_again(trained, tmp_path):
    searches = ("Catch.level=8,9",)
    first = new_search(tmp_path, 6, searches)
    code, _ = run(first)
    failed = [row for row in first.results() if row["state"] == "failed"]
    assert code == 3
    assert failed
    assert first.table().splitlines()[-1] == f"trial {failed[-1]['trial']}: too high"
    second = new_search(tmp_path, 6, searches)
    _, said = run(second)
    assert said[0].startswith(f"{len(failed)} of 6 trials left")
    assert len(second.results()) == 6 + len(failed)
    assert [row for row in second.results() if row in failed] == failed


def test_results_are_a_table_a_file_and_a_command(trained, tmp_path):
    running = new_search(tmp_path, 8)
    run(running)
    lines = running.table().splitlines()
    with open(running.write_results(), encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert rows == sorted(rows, key=lambda row: (row["state"] != "finished", -float(row["score"] or "-inf")))
    assert [line.split()[0] for line in lines[2 : 2 + len(rows)]] == [row["trial"] for row in rows]
    settings = [f"--gin_param={name}={rows[0][name]}" for name in ("Catch.level", "Catch.shape")]
    assert running.best_command().split() == ["seed_rl", "train", "--gin_file=catch/vtrace", *settings]


def test_a_directory_holds_one_search_of_one_process(trained, tmp_path):
    running = new_search(tmp_path, 2)
    with pytest.raises(ConfigError, match="holds another search, seed_rl sweep --gin_file=catch/vtrace --search="):
        new_search(tmp_path, 2, searches=["Catch.level=1..8"])
    with locking(str(tmp_path / "lock")), pytest.raises(ConfigError, match=f"another sweep is running in {tmp_path}"):
        run(running)
    assert trained == []


class PrunesAll(optuna.pruners.BasePruner):
    def prune(self, study, trial):
        return True


def test_a_real_run_is_trained_and_pruned(tmp_path, monkeypatch):
    monkeypatch.setattr(optuna.pruners, "MedianPruner", lambda **_: PrunesAll())
    small = ("Actors.groups_per_actor=1", "Actors.envs_per_group=4", "Experiment.batch_size=4")  # one batch size
    small += ("Logs.metrics_interval_s=0.1",)
    arguments = ["--gin_file=catch/vtrace", "--total_frames=20k", *(f"--gin_param={setting}" for setting in small)]
    command = ["sweep", *arguments, "--search=Optimizer.learning_rate=1e-4..1e-2", "--trials=1", f"--logdir={tmp_path}"]
    assert main(command) == 0
    with open(tmp_path / "results.csv", encoding="utf-8", newline="") as file:
        (pruned,) = csv.DictReader(file)
    assert pruned["state"] == "pruned"
    assert 1000 <= float(pruned["frames"]) < 20_000
    assert glob.glob(str(tmp_path / "trial_0" / "checkpoints" / "*.npz")), "it ended with a checkpoint"
