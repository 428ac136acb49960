"""A small experiment for whole runs in this process."""

import pytest

from seed_rl.api import load_experiment

BINDINGS = (
    "Actors.envs_per_group = 1",
    "Inference.max_batch_size = 1",  # the only one to compile for
    "Experiment.batch_size = 4",
    "Experiment.total_frames = 1_600",
    "Logs.metrics_interval_s = 0.1",
)


@pytest.fixture(scope="session")
def small_catch():
    """An experiment for whole runs."""
    return load_experiment(["catch/vtrace"], BINDINGS)
