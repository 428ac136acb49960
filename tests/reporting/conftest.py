"""Short real runs, shared by the tests that look at what they leave behind."""

import os
from types import SimpleNamespace

import pytest

from tests.support import zygote


@pytest.fixture(scope="session")
def finished_runs(once):
    """The log directories of two runs, and what they printed.

    `vtrace` was resumed once and reports to Weights & Biases; `r2d2` has evaluation environments.
    """

    def fill(folder):
        wandb = "--gin_param=Logs.wandb_project='seed_rl'"
        train("catch/vtrace", folder / "vtrace", 800, wandb)
        train("catch/vtrace", folder / "vtrace", 1_600, wandb)
        train("memory/r2d2", folder / "r2d2", 1_600, "--gin_param=Replay.min_size=8")

    made = once("finished_runs", fill)
    output = "".join(path.read_text() for path in made.glob("*.txt"))
    return SimpleNamespace(vtrace=str(made / "vtrace"), r2d2=str(made / "r2d2"), output=output)


def train(config, logdir, frames, *arguments):
    """Train to the end, with the output in a file beside the log directory."""
    arguments = [
        f"--logdir={logdir}",
        f"--total_frames={frames}",
        "--gin_param=Logs.metrics_interval_s=0.2",
        "--gin_param=Actors.groups_per_actor=1",
        "--gin_param=Actors.envs_per_group=8",
        "--gin_param=Experiment.batch_size=4",
        *arguments,
    ]
    path = logdir.with_name(f"{logdir.name}-{frames}.txt")
    with open(path, "wb") as output:
        run = zygote.start(
            ["train", f"--gin_file={config}", *arguments], output, {**os.environ, "WANDB_MODE": "offline"}
        )
    assert run.wait(240) == 0, path.read_text()
