"""Sentences about learning, of recorded runs: healthy ones, and ones that went wrong on purpose."""

import csv
import pathlib
from collections import Counter

import pytest

from seed_rl.reporting.learning import LearningMonitor

RUNS = pathlib.Path(__file__).resolve().parents[2] / "docs" / "results" / "learning"
WRONG = {
    "blind": "values",
    "certain": "values",
    "clipped": "updates",
    "crowded": "importance weights",
    "fast": "values",
    "slow": "updates",
    "unbounded": "policy",
    "uniform": "entropy",
    "unscaled": "gradients",
}
"""The symptom that most rows of each run should name, among those that name any."""


def sentences(name):
    """A row of a run after the first, when no update lies between the acting and the learned weights."""
    with open(RUNS / f"{name}.csv", encoding="utf-8", newline="") as file:
        rows = [{key: float(value) for key, value in row.items() if value} for row in csv.DictReader(file)]
    trouble = LearningMonitor()
    return [trouble.symptom(row) for row in rows[1:]]


def test_nothing_stands_out_in_a_healthy_run():
    healthy = [path.stem for path in RUNS.glob("healthy_*.csv")]
    assert len(healthy) == 7
    assert {name: set(sentences(name)) for name in healthy} == {name: {""} for name in healthy}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_run_is_named_by_its_symptom(name):
    found = sentences(name)
    named = Counter(sentence.partition(":")[0] for sentence in found if sentence)
    assert named.most_common(1)[0][0] == WRONG[name]
    assert sum(named.values()) > 0.4 * len(found)


OLD = {"learning/clipped_mass": 0.4, "policy_lag": 31.0}
SLOW = {"learning/clipped_mass": 1e-7, "policy_lag": 2.0}
PLAIN = {"learning/explained_variance": 0.0, "policy/mean_abs_advantage": 1.0}  # an agent need not report more
UNREWARDED = {"policy/mean_abs_advantage": 0.0, "agent_steps": 1.2e6}


@pytest.mark.parametrize(
    ("row", "words"),
    [
        (OLD, ("importance weights: 40% clipped", "31 updates old", "fewer environments")),
        (OLD | {"policy_lag": 2.0}, ("importance weights: 40% clipped", "2 updates old", "lower learning rate")),
        (SLOW, ("updates: ", "higher learning rate")),
        (SLOW | {"policy_lag": 0.0}, ()),
        (PLAIN | {"learning/entropy_share": 1.0}, ()),
        (PLAIN | {"learning/entropy_share": 0.5}, ()),
        (SLOW | {"learning/entropy_share": 2e-4, "episode_return": 1.0}, ()),
        ({"gradient_to_clip": 13.0}, ("gradients: 13 times clip_norm",)),
        ({"gradient_to_clip": 13.0, "policy/mean_abs_advantage": 40.0, "policy/value_unit": 60.0}, ()),
        ({"learning/value_to_bound": 824.56}, ("values: 825 times",)),
        ({"learning/entropy_share": 0.0004}, ("policy: ", "before any episode ended")),
        (UNREWARDED, ("rewards: none in 1,200,000 agent steps",)),
        (UNREWARDED | {"agent_steps": 9e4}, ()),
        ({"agent_steps": 1.2e6}, ()),
        ({"env_frames": 1.0, "seconds": 1.0}, ()),
    ],
    ids=str,
)
def test_a_symptom_has_its_figures_and_a_remedy(row, words):
    monitor = LearningMonitor()
    monitor.symptom(row)
    symptom = monitor.symptom(row)
    assert all(word in symptom for word in words), symptom
    assert bool(symptom) == bool(words)


def test_a_policy_may_become_certain_unless_its_return_is_lost():
    def said(returns, entropy=0.01):
        trouble = LearningMonitor()
        return [trouble.symptom({"learning/entropy_share": entropy, "episode_return": each}) for each in returns]

    assert said([-20, 5, 20, 14]) == [""] * 4
    assert said([250, 280, 38], entropy=0.03) == [""] * 3
    assert said([20, 20.1, 19]) == [""] * 3, "a solved run that continues"
    *_, last = said([250, 280, 38])
    assert last.startswith("policy: nearly deterministic, with return 38 after 280: ")
    assert said([250, 250, 38])[-1], "that of random play was the best"


def test_values_may_explain_nothing_in_the_first_row_and_in_a_solved_environment():
    solved = {"learning/entropy_share": 0.5, "learning/explained_variance": 0.0, "policy/mean_value": 0.0}
    monitor = LearningMonitor()
    assert monitor.symptom({"env_frames": 1.0}) == ""
    assert monitor.symptom(solved | {"policy/mean_abs_advantage": 1.0}) == "", "a task may be solved within this row"
    assert monitor.symptom(solved | {"policy/mean_abs_advantage": 1.0}).startswith("values: they explain only 0%")
    assert monitor.symptom(solved | {"policy/mean_abs_advantage": 0.3}) == ""


def test_advice_needs_a_symptom_in_two_rows_and_a_return_that_does_not_rise():
    def said(*rows, interval=10.0):
        trouble, sick = LearningMonitor(), {"policy_lag": 31.0}
        return [
            trouble.diagnose(sick | {"seconds": interval * n, "learning/clipped_mass": mass, "episode_return": value})
            != ""
            for n, (mass, value) in enumerate(rows)
        ]

    assert said((0.4, 1), (0.4, 1), (0.4, 1)) == [False, False, True]
    assert said((0.4, 1), (0.4, 2), (0.4, 3), (0.4, 4)) == [False] * 4, "it learns"
    assert said((0.4, 1), (0.4, 2), (0.4, 1.5), (0.4, 1.8)) == [False, False, False, True]
    assert said(*[(0.4, 1)] * 9, interval=2.0) == [False] * 8 + [True], "rows that are close together"
    assert said((0.0, 1), (0.0, 1), (0.4, 1), (0.0, 1), (0.4, 1)) == [False] * 5


def test_a_row_without_an_update_changes_no_diagnosis():
    monitor, rows = LearningMonitor(), [OLD | {"seconds": 10.0 * n, "episode_return": 1.0} for n in range(9)]
    without = [row | {"seconds": row["seconds"] + 5, "updates_per_second": 0.0} for row in rows]
    found = [monitor.diagnose(row) for pair in zip(rows, without, strict=True) for row in pair]
    assert [bool(each) for each in found] == [False] * 4 + [True] * 14


def test_what_a_run_has_or_cannot_use_is_not_advised():
    monitor = LearningMonitor(explores=True, opponents=True)
    assert monitor.symptom(UNREWARDED).endswith("nothing is learned: rewards for a part of the task")
    for value in (250, 280, 38):
        assert monitor.symptom({"learning/entropy_share": 0.01, "episode_return": value}) == ""
