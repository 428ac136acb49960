"""A real run to evaluate, and quick ones that were saved without training."""

import contextlib
import os
import resource
import subprocess
import sys

import numpy as np
import psutil
import pytest

from seed_rl import config_files
from seed_rl.learner import checkpoints


@pytest.fixture(scope="session")
def killed_run(tmp_path_factory):
    """The log directory of V-trace with an LSTM and a frame stack on Catch, killed after its first checkpoint."""
    logdir = str(tmp_path_factory.mktemp("killed") / "run")
    settings = (
        "Logs.checkpoint_interval_s = 1",
        "VTrace.core = 'lstm'",
        "VTrace.core_units = 16",
        "VTrace.frame_stack = 2",
    )
    arguments = ["--gin_file=catch/vtrace", "--total_frames=1000000000", f"--logdir={logdir}"]
    process = subprocess.Popen(
        [sys.executable, "-m", "seed_rl", "train", *arguments, *(f"--gin_param={setting}" for setting in settings)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        while not checkpoints.paths(os.path.join(logdir, "checkpoints")):
            line = process.stdout.readline()  # metrics come twice a second
            assert line or process.poll() is None, "it ended by itself"
    finally:
        children = psutil.Process(process.pid).children(recursive=True)
        process.kill()
        process.wait()
        for child in children:
            child.kill()
    return logdir


@pytest.fixture
def saved_run(tmp_path):
    """Makes the log directory of a run with random weights; returns it and the agent that has them."""

    def save(config, *bindings):
        logdir = str(tmp_path / f"run-{len(os.listdir(tmp_path))}")
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

    return save


@pytest.fixture
def largest_file():
    """Limits the size of files in bytes, as if the disk were full."""

    @contextlib.contextmanager
    def limited(size):
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)

    return limited
