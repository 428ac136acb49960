"""Short real runs, shared by the tests that look at what they leave behind."""

import os
from types import SimpleNamespace

import pytest

from tests.support import zygote


@pytest.fixture(scope="session")
def finished_runs(once):
    """Log directories of two runs and their output.

    `vtrace` was resumed once and reports to Weights & Biases; `r2d2` has evaluation environments.
    """

    def fill(folder):
        wandb = "--gin_param=Logs.wandb_project='seed_rl'"
        train("catch/vtrace", folder / "vtrace", 3_200, wandb)
        train("catch/vtrace", folder / "vtrace", 6_400, wandb)
        train("memory/r2d2", folder / "r2d2", 8_000)

    made = once("finished_runs", fill)
    output = "".join(path.read_text() for path in made.glob("*.txt"))
    return SimpleNamespace(vtrace=str(made / "vtrace"), r2d2=str(made / "r2d2"), output=output)


def train(config, logdir, frames, *arguments):
    """Trains to the end; everything that is printed goes into a file beside the log directory."""
    arguments = [
        f"--logdir={logdir}",
        f"--total_frames={frames}",
        "--gin_param=Logs.metrics_interval_s=0.2",
        *arguments,
    ]
    path = logdir.with_name(f"{logdir.name}-{frames}.txt")
    with open(path, "wb") as output:
        run = zygote.start(
            ["train", f"--gin_file={config}", *arguments], output, {**os.environ, "WANDB_MODE": "offline"}
        )
    assert run.wait(240) == 0, path.read_text()
