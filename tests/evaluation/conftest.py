"""Real runs to evaluate, and quick ones that were saved and never trained."""

import contextlib
import os
import subprocess
import sys
import time

import numpy as np
import psutil
import pytest

from seed_rl import config_files
from seed_rl.learner.learner import Learner
from seed_rl.transport.credentials import ServerSecurity

SEED_RL = (sys.executable, "-m", "seed_rl")


def checkpoints_in(logdir):
    directory = os.path.join(logdir, "checkpoints")
    names = os.listdir(directory) if os.path.isdir(directory) else []
    return sorted(os.path.join(directory, name) for name in names if name.endswith(".npz"))


@pytest.fixture(scope="session")
def killed_run(tmp_path_factory):
    """V-trace with an LSTM and a frame stack on Catch, killed after its first checkpoint."""
    directory = tmp_path_factory.mktemp("killed")
    logdir = str(directory / "run")
    settings = ("Logs.checkpoint_interval_s = 1", "VTrace.lstm_units = 16", "VTrace.frame_stack = 2")
    arguments = ["train", "--gin_file=catch/vtrace", "--total_frames=1000000000", f"--logdir={logdir}"]
    with open(directory / "output", "wb") as output:
        process = subprocess.Popen(
            [*SEED_RL, *arguments, *(f"--gin_param={setting}" for setting in settings)], stdout=output, stderr=output
        )
    try:
        deadline = time.monotonic() + 120
        while not checkpoints_in(logdir):
            if process.poll() is not None or time.monotonic() > deadline:
                raise AssertionError((directory / "output").read_text())
            time.sleep(0.05)
    finally:
        children = psutil.Process(process.pid).children(recursive=True) if process.poll() is None else []
        process.kill()
        process.wait()
        for child in children:
            with contextlib.suppress(psutil.NoSuchProcess):
                child.kill()
    return logdir


@pytest.fixture(scope="session")
def recurrent_run(tmp_path_factory):
    """R2D2 on the memory task, trained for a few seconds."""
    logdir = str(tmp_path_factory.mktemp("recurrent") / "run")
    arguments = ["train", "--gin_file=memory/r2d2", "--total_frames=8000", f"--logdir={logdir}"]
    done = subprocess.run([*SEED_RL, *arguments], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return logdir


@pytest.fixture
def saved_run(tmp_path):
    """Makes the log directory of a run that has random weights; returns it and the agent that has them."""

    def save(config, *bindings):
        logdir = str(tmp_path / f"run-{len(os.listdir(tmp_path))}")
        loaded = config_files.load([config], bindings)
        learner = Learner(loaded, logdir, f"unix:{logdir}/unused.sock", ServerSecurity())
        config_files.save_config(loaded, logdir)
        rng = np.random.default_rng(0)
        for variable in learner._agent.variables:
            variable.assign(rng.normal(0, 0.3, variable.shape))
        learner.counters.learner_updates, learner.counters.env_frames = 7, 700
        learner.save()
        return logdir, learner._agent

    return save
