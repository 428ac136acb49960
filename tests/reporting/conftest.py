"""Short real runs, shared by the tests that look at what they leave behind."""

import fcntl
import os
import subprocess
import sys
from types import SimpleNamespace

import pytest


@pytest.fixture(scope="session")
def finished_runs(tmp_path_factory):
    """Log directories of two runs, made once for all workers of a test run, and their output.

    `vtrace` was resumed once and reports to Weights & Biases; `r2d2` has evaluation environments.
    """
    shared = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        shared = shared.parent
    vtrace, r2d2, output = shared / "vtrace", shared / "r2d2", shared / "finished_runs.txt"
    with open(shared / "finished_runs.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not output.exists():
            wandb = "--gin_param=Logs.wandb_project='seed_rl'"
            printed = train("catch/vtrace", vtrace, 10_000, wandb)
            printed += train("catch/vtrace", vtrace, 20_000, wandb)
            output.write_text(printed + train("memory/r2d2", r2d2, 12_000))
    return SimpleNamespace(vtrace=str(vtrace), r2d2=str(r2d2), output=output.read_text())


def train(config, logdir, frames, *arguments):
    """Trains to the end; returns everything that was printed."""
    command = [sys.executable, "-m", "seed_rl", "train", f"--gin_file={config}", f"--logdir={logdir}"]
    command += [f"--total_frames={frames}", "--gin_param=Logs.metrics_interval_s=0.5", *arguments]
    environment = {**os.environ, "WANDB_MODE": "offline"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr
