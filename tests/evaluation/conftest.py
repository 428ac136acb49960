"""Runs that were saved without training."""

import os

import numpy as np
import pytest

from seed_rl.experiment import config_files
from seed_rl.weights import checkpoints


@pytest.fixture
def saved_run(tmp_path):
    """Makes the log directory of a run with random weights; returns it and the agent that has them."""
    return lambda config, *bindings: save_run(str(tmp_path / f"run-{len(os.listdir(tmp_path))}"), config, *bindings)


def save_run(logdir, config, *bindings):
    """Makes this log directory; see `saved_run`."""
    loaded = config_files.load([config], bindings)
    config_files.save_config(loaded, logdir)
    agent = loaded.build_agent()
    rng = np.random.default_rng(0)
    for variable in agent.variables:
        variable.assign(rng.normal(0, 0.3, variable.shape))
    variables = checkpoints.name_variables("agent", agent.variables)
    arrays = {name: variable.numpy() for name, variable in variables.items()}
    os.makedirs(f"{logdir}/checkpoints")
    checkpoints.save(f"{logdir}/checkpoints", 7, arrays, {"counters": {"env_frames": 700}}, keep=3)
    return logdir, agent
