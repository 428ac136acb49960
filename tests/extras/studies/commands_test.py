"""Mistakes in the command line of `seed_rl sweep`, all found before the first run."""

import sys

import pytest

from seed_rl.cli.main import main


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        ("--seeds=0", "--seeds must be 1 to 10,000 runs, or a list of seeds, got 0"),
        ("--seeds=two", "--seeds must be whole numbers, got 'two'"),
        ("--logdir=gs://a/b", "--logdir of a sweep must be a local directory, got gs://a/b"),
        ("--grid=Experiment.seed=3,4", "the seeds of a sweep are given by --seeds, not"),
        ("--total_frames=9 --grid=Experiment.total_frames=1,2", "give either --total_frames or values of"),
        ("--trials=3", "--trials needs --search"),
        ("--search=A.b=1..2 --grid=A.b=1,2", "--grid can't be combined with --search"),
        ("--search=Optimizer.learning_rate=-1..1", "Optimizer.learning_rate must be at least 0, got -1"),
    ],
)
def test_a_mistake_gets_a_sentence_and_begins_nothing(flags, sentence, refused):
    refused(f"sweep catch/vtrace {flags}", sentence)


def test_a_search_without_optuna_says_how_to_install_it(capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna", None)
    monkeypatch.delitem(sys.modules, "seed_rl.extras.studies.search", raising=False)
    assert main(["sweep", "catch/vtrace", "--search=A.b=1,2"]) == 2
    assert capsys.readouterr().err == "seed_rl sweep: --search needs Optuna: pip install optuna\n"
