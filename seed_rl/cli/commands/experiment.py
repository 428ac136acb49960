"""Flags that define a command's experiment, and its log directory."""

import os
from collections.abc import Sequence

from seed_rl.cli import flags
from seed_rl.errors import UsageError
from seed_rl.experiment import ConfigError, Experiment, config_files

EXPERIMENT = flags.group(
    "the experiment",
    flags.repeated("gin_file", [], "Path, or shipped file such as gym/any; repeatable."),
    flags.repeated("gin_param", [], "Setting, e.g. Optimizer.learning_rate=1e-4; repeatable."),
    flags.choice("agent", None, config_files.agents(), "Replaces the agent of the files."),
    flags.integer("total_frames", None, "Overrides Experiment.total_frames, e.g. 300k."),
)
_OVERRIDES = {
    "total_frames": "Experiment.total_frames",
    "seed": "Experiment.seed",
    "num_actors": "Actors.num_actors",
    "init_from": "Experiment.init_from",
}


FILES = "gin files, like --gin_file."
"""Describes the positional arguments of commands that call `add_files`."""


def add_files(values: flags.FlagValues, files: Sequence[str]) -> None:
    """Put positional arguments in front of the files in `--gin_file`.

    Raises:
      UsageError: one is no gin file.
    """
    for name in files:
        try:
            config_files.find_config(name)
        except ConfigError as error:
            raise UsageError(f"unexpected argument (flags begin with --): {str(error).partition(';')[0]}") from error
    values["gin_file"].value = [*files, *values.gin_file]


def continue_run(values: flags.FlagValues) -> None:
    """Use the configuration of the run in `--logdir` if there is no gin file.

    Raises:
      UsageError: no run is there.
    """
    if values.logdir and not values.gin_file:
        config = os.path.join(values.logdir, "config.gin")
        if not os.path.isfile(config):
            raise UsageError(f"--gin_file is required, because {values.logdir} is no directory of a run to continue")
        values["gin_file"].parse(config)


def load(values: flags.FlagValues, *bindings: str) -> Experiment:
    """Build the experiment from the flags and additional gin bindings.

    Raises:
      UsageError: no gin file was given.
      ConfigError: a file is missing, or a setting is unknown or has an invalid value.
    """
    if not values.gin_file:
        raise UsageError(f"--gin_file is required: a path, or one of {', '.join(config_files.shipped_configs())}")
    given = {parameter: values[flag].value for flag, parameter in _OVERRIDES.items() if flag in values}
    overrides = [f"{parameter} = {value!r}" for parameter, value in given.items() if value not in (None, flags.AUTO)]
    return config_files.load(values.gin_file, [*values.gin_param, *overrides, *bindings], values.agent)


def logdir_of(values: flags.FlagValues, prefix: str = "") -> str:
    """Return `--logdir`, by default `runs/<prefix><name of the gin file>`."""
    name = os.path.splitext(values.gin_file[-1])[0].strip("./").replace("/", "_")
    return values.logdir or os.path.join("runs", prefix + name)
