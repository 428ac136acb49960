"""Flags that define a command's experiment, and its log directory."""

import os
from collections.abc import Sequence

from seed_rl.cli import flags
from seed_rl.errors import UsageError
from seed_rl.experiment import Experiment, config_files, saved_config

EXPERIMENT = flags.group(
    "the experiment",
    flags.repeated("gin_file", [], "Path, or shipped file such as gym/any; repeatable."),
    flags.repeated("gin_param", [], "Setting, e.g. Optimizer.learning_rate=1e-4; repeatable."),
    flags.choice("agent", None, config_files.agents(), "Replace the agent of the files."),
    flags.integer("total_frames", None, "Override Experiment.total_frames, e.g. 300k."),
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
    """Put positional arguments, which are gin files, in front of the files in `--gin_file`."""
    values["gin_file"].value = [*files, *values.gin_file]
    values["gin_file"].present += len(files)


def load_or_continue(values: flags.FlagValues) -> Experiment:
    """Build the experiment from the flags; without a gin file, the one that the run in `--logdir` recorded.

    Raises:
      UsageError: no gin file was given, and no run is there, or one with another agent.
      ConfigError: a file can't be read, or a setting is unknown or has an invalid value.
    """
    if values.gin_file or not values.logdir:
        return load(values)
    try:
        saved = saved_config.load_saved(values.logdir, own=True)
    except FileNotFoundError:
        missing = f"there is no {saved_config.SAVED} of a run to continue in {values.logdir}"
        raise UsageError(f"--gin_file is required, because {missing}") from None
    if values.agent not in (None, (kind := type(saved.agent).__name__).lower()):
        raise UsageError(f"--agent={values.agent} is for a new run: {values.logdir} has one of {kind}")
    return config_files.change(saved, _bindings(values))


def load(values: flags.FlagValues, *bindings: str) -> Experiment:
    """Build the experiment from the flags and additional gin bindings; errors are those of `load_or_continue`."""
    if not values.gin_file:
        raise UsageError(f"--gin_file is required: a path, or one of {', '.join(config_files.shipped_configs())}")
    return config_files.load(values.gin_file, [*_bindings(values), *bindings], values.agent)


def _bindings(values: flags.FlagValues) -> list[str]:
    given = {parameter: values[flag].value for flag, parameter in _OVERRIDES.items() if flag in values}
    overrides = [f"{parameter} = {value!r}" for parameter, value in given.items() if value not in (None, flags.AUTO)]
    return [*values.gin_param, *overrides]


def logdir_of(values: flags.FlagValues, prefix: str = "") -> str:
    """Return `--logdir`, by default `runs/<prefix><name of the gin file>`."""
    if values.logdir:
        return str(values.logdir)
    name = os.path.splitext(values.gin_file[-1])[0].strip("./").replace("/", "_")
    return os.path.join("runs", prefix + name)
