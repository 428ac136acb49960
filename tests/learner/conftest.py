"""Short real runs, shared by the tests that look at what they leave behind."""

import os
import subprocess
import sys
from types import SimpleNamespace

import pytest


@pytest.fixture(scope="session")
def finished_runs(tmp_path_factory):
    """A directory with two runs: `vtrace`, resumed once and with a run in Weights & Biases; `r2d2`, with evaluation."""
    directory = tmp_path_factory.mktemp("runs")
    vtrace = ("--gin_file=catch/vtrace", f"--logdir={directory}/vtrace", "--gin_param=Logs.wandb_project='seed_rl'")
    r2d2 = ("--gin_file=memory/r2d2", f"--logdir={directory}/r2d2")
    output = [
        train(*vtrace, "--total_frames=10000"),
        train(*vtrace, "--total_frames=20000"),
        train(*r2d2, "--total_frames=12000"),
    ]
    return SimpleNamespace(
        directory=directory, vtrace=str(directory / "vtrace"), r2d2=str(directory / "r2d2"), output="".join(output)
    )


def train(*arguments):
    """Trains to the end; returns what was printed."""
    command = [sys.executable, "-m", "seed_rl", "train", "--gin_param=Logs.metrics_interval_s=0.5", *arguments]
    environment = {**os.environ, "WANDB_MODE": "offline"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr
