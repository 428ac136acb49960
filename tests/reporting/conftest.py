"""Short real runs, shared by the tests that look at what they leave behind."""

import fcntl
import os
import subprocess
import sys
from types import SimpleNamespace

import pytest


@pytest.fixture(scope="session")
def finished_runs(tmp_path_factory):
    """A directory with two runs: `vtrace`, resumed once and with a run in Weights & Biases; `r2d2`, with evaluation.

    They are made once for all workers of a test run.
    """
    shared = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        shared = shared.parent
    directory, kept = shared / "finished_runs", shared / "finished_runs.txt"
    with open(shared / "finished_runs.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not kept.exists():
            kept.write_text(make_runs(directory))
    return SimpleNamespace(
        directory=directory, vtrace=str(directory / "vtrace"), r2d2=str(directory / "r2d2"), output=kept.read_text()
    )


def make_runs(directory):
    """The runs; gives what was printed."""
    vtrace = ("--gin_file=catch/vtrace", f"--logdir={directory}/vtrace", "--gin_param=Logs.wandb_project='seed_rl'")
    r2d2 = ("--gin_file=memory/r2d2", f"--logdir={directory}/r2d2")
    return "".join(
        [
            train(*vtrace, "--total_frames=10000"),
            train(*vtrace, "--total_frames=20000"),
            train(*r2d2, "--total_frames=12000"),
        ]
    )


def train(*arguments):
    """Trains to the end; returns what was printed."""
    command = [sys.executable, "-m", "seed_rl", "train", "--gin_param=Logs.metrics_interval_s=0.5", *arguments]
    environment = {**os.environ, "WANDB_MODE": "offline"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr
