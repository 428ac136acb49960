"""Flags that choose a policy and say how it acts, and the directory in which it is."""

import contextlib
import os
from collections.abc import Iterator
from typing import Any

from seed_rl.cli import flags
from seed_rl.cli.flags import check_outputs
from seed_rl.errors import UsageError
from seed_rl.system.native_output import load_tensorflow
from seed_rl.weights import checkpoints
from seed_rl.weights.policy_sources import opening

POLICY = (
    flags.string("logdir", None, "Log directory of the run, its bundle, or the name of a policy."),
    flags.string("checkpoint", None, "best, newest, a number of learner updates, or a file; default: the newest."),
    flags.IMPORT_MODULE,
)
HERE = "in the log directory, or the working directory if the policy is elsewhere, as in a bundle"
CHOOSING = (
    flags.boolean("greedy", False, "Always take the greedy action."),
    flags.integer("seed", 1, "Seed of environments and sampled actions.", lower_bound=0, upper_bound=2**31 - 1),
)
ACTING = (
    *CHOOSING,
    flags.integer("max_steps", None, "Cut episodes off after this many agent steps.", lower_bound=1),
    flags.repeated("gin_param", [], "Setting of the environments, e.g. Atari.sticky_actions=0.25; repeatable."),
)


def acting(values: flags.FlagValues) -> dict[str, Any]:
    """Return the flags of `ACTING`, and the checkpoint, as keyword arguments."""
    given = {name: values[name].value for name in ("checkpoint", "greedy", "seed", "max_steps")}
    return {**given, "gin_params": values.gin_param}


def place_of(values: flags.FlagValues, *places: str) -> str:
    """Return the place of the one policy that arguments and `--logdir` name."""
    given = [*places, values.logdir] if values.logdir else places
    if len(given) != 1:
        raise UsageError("expected a single policy: --logdir, the log directory of a run")
    return given[0]


@contextlib.contextmanager
def usable_run(
    values: flags.FlagValues, place: str, *names: str, directories: bool = False
) -> Iterator[tuple[str, list[str]]]:
    """Load TensorFlow and yield the log directory of the policy at a place, and output paths.

    These come from `--output`, or else are files (or directories) called `names` in the log directory, or in the
    working directory if `place` isn't one on this machine. Only the latter may exist without `--overwrite`. A flag or
    policy that is unusable raises a UsageError.
    """
    given = values.output if "output" in values else None
    given = [given] if isinstance(given, str) else given
    if given:
        check_outputs(given, values.overwrite, directories)
    with opening(place, values.checkpoint) as logdir:
        checkpoints.find(logdir, values.checkpoint)  # a mistake needs no TensorFlow
        outputs = given or [os.path.join(logdir if logdir == place else "", name) for name in names]
        check_outputs(outputs, directories=directories)
        load_tensorflow()
        yield logdir, outputs
