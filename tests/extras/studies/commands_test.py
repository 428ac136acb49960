"""Mistakes in the command line of `seed_rl sweep`, all found before the first run."""

import pytest


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        ("--seeds=0", "--seeds must be 1 to 10,000"),
        ("--seeds=two", "'two'"),
        ("--logdir=gs://a/b", "local directory"),
        ("--grid=Experiment.seed=3,4", "--seeds"),
        ("--total_frames=9 --grid=Experiment.total_frames=1,2", "either --total_frames"),
        ("--trials=3", "--trials needs --search"),
        ("--search=A.b=1..2 --grid=A.b=1,2", "--grid"),
        ("--search=Optimizer.learning_rate=-1..1", "Optimizer.learning_rate"),
    ],
)
def test_a_mistake_gets_a_sentence_and_begins_nothing(flags, sentence, refused):
    refused(f"sweep catch/vtrace {flags}", sentence)
