"""Sentences about learning, of recorded runs: healthy ones, and ones that went wrong on purpose."""

import csv
import pathlib
from collections import Counter

import pytest

from seed_rl import config_files
from seed_rl.reporting.learning import learning_trouble

RUNS = pathlib.Path(__file__).resolve().parents[2] / "docs" / "results" / "learning"
WRONG = {
    "blind": "values",
    "certain": "values",
    "clipped": "updates",
    "crowded": "importance weights",
    "fast": "values",
    "slow": "updates",
    "uniform": "entropy",
    "unscaled": "gradients",
}
"""The symptom that most rows of each run should name, among those that name any."""


def sentences(name):
    """Of every row of a run after the first, whose unrolls no update separates from its weights."""
    with open(RUNS / f"{name}.csv", encoding="utf-8", newline="") as file:
        rows = [{key: float(value) for key, value in row.items() if value} for row in csv.DictReader(file)]
    return [learning_trouble(row) for row in rows[1:]]


def test_nothing_stands_out_in_a_healthy_run():
    healthy = [path.stem for path in RUNS.glob("healthy_*.csv")]
    assert len(healthy) == 4
    assert {name: set(sentences(name)) for name in healthy} == {name: {""} for name in healthy}


def test_every_wrong_run_has_its_config_and_its_curve():
    assert {path.stem for path in RUNS.glob("*.gin")} == set(WRONG)
    assert {path.stem for path in RUNS.glob("*.csv") if not path.stem.startswith("healthy_")} == set(WRONG)


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_run_is_named_by_its_symptom(name):
    config_files.load([str(RUNS / f"{name}.gin")])
    found = sentences(name)
    named = Counter(sentence.partition(":")[0] for sentence in found if sentence)
    assert named.most_common(1)[0][0] == WRONG[name]
    assert sum(named.values()) > 0.4 * len(found)
    assert max(map(len, found)) <= 130, "two lines of a terminal"


@pytest.mark.parametrize(
    ("row", "sentence"),
    [
        (
            {"learning/clipped_mass": 0.4, "policy_lag": 31.0},
            "importance weights: 40% clipped, the behaviour policy is 31 updates old: "
            "fewer environments or larger batches",
        ),
        (
            {"learning/clipped_mass": 0.4, "policy_lag": 2.0},
            "importance weights: 40% clipped, the behaviour policy is 2 updates old: a lower learning rate",
        ),
        (
            {"learning/clipped_mass": 1e-7, "policy_lag": 2.0},
            "updates: they hardly change the policy: a higher learning rate",
        ),
        ({"learning/clipped_mass": 0.0, "policy_lag": 0.0}, ""),
        ({"gradient_to_clip": 13.0}, "gradients: 13 times their limit: smaller rewards, or a higher clip_norm"),
        ({"env_frames": 1.0, "seconds": 1.0}, ""),
    ],
    ids=["old", "fast", "slow", "on-policy", "gradients", "before the first update"],
)
def test_a_sentence_has_its_figures_and_a_remedy(row, sentence):
    assert learning_trouble(row) == sentence
