import pytest

from seed_rl.reporting.bottleneck import bottleneck

IDLE = {
    "environments": 8.0,
    "time/learner_waiting": 0.9,
    "time/inference_waiting": 0.9,
    "time/inference_blocked": 0.0,
    "time/inference_acting": 0.1,
    "time/actors_waiting": 0.9,
    "time/cpu": 0.5,
}


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ({"environments": 0.0}, "actors: none is connected"),
        ({"time/learner_waiting": 0.01}, "learner: smaller network or faster device"),
        ({"time/inference_blocked": 0.6}, "learner: smaller network or faster device"),
        (
            {"time/learner_waiting": 0.01, "time/cpu": 1.0},
            "learner: smaller network or faster device, all cores are busy",
        ),
        ({"time/inference_acting": 0.95}, "inference: larger batches or faster device"),
        ({"time/learner_waiting": 0.01, "time/inference_acting": 0.95}, "learner: smaller network or faster device"),
        ({"time/actors_waiting": 0.2}, "actors: add environments or processes"),
        ({"time/actors_waiting": 0.2, "time/cpu": 0.99}, "actors: add environments or processes, all cores are busy"),
        ({"time/cpu": 0.99}, "cores: all are busy, shared by everything"),
        ({}, "latency: add groups of environments to each actor"),
    ],
)
def test_who_never_waits_is_what_others_wait_for(row, words):
    assert bottleneck(IDLE | row) == words


def test_it_fits_a_terminal():
    for busy in (0.0, 1.0):
        for name in IDLE:
            for value in (0.0, 1.0):
                assert len("bottleneck: " + bottleneck(IDLE | {name: value, "time/cpu": busy})) < 80
