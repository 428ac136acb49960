"""The definition of a command: a function and its flags."""

import contextlib
import os
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from seed_rl.cli.flags import Flag, FlagValues
from seed_rl.errors import UsageError
from seed_rl.system.entry_points import declarations


class Command(NamedTuple):
    """One command of `seed_rl`."""

    run: Callable[..., int]
    """Called with the flag values and, if it takes any, the positional arguments; returns the exit code. Its docstring
    is the summary shown by `--help`. A `UsageError` or a `Failure` is printed as one line, and is the exit code."""
    example: str
    """A command line, shown by `--help`."""
    arguments: str
    """Describes the positional arguments; "" if there are none."""
    flags: tuple[Flag, ...]


class RunOption(NamedTuple):
    """Flags that a neighbour adds to `train` and `learner`, and what they do; declared under an entry point."""

    flags: Flag
    apply: Callable[[FlagValues, Any], contextlib.AbstractContextManager[object]]
    """Called with the flag values and the `Run` before it is opened, which it may change. The context is left after the
    run has ended. Errors of the package are printed as by a command."""


RUN_OPTIONS = "seed_rl.run_options"
"""The entry-point group in which packages declare each `RunOption`."""


def run_options() -> list[RunOption]:
    """Return the options of all neighbours that are there."""
    return [entry.load() for entry in declarations(RUN_OPTIONS)]


def command(example: str, *flags: Flag, arguments: str = "") -> Callable[[Callable[..., int]], Command]:
    """Turn a function into a command."""
    return lambda function: Command(function, example, arguments, flags)


def check_outputs(paths: Iterable[str], overwrite: bool = True, directories: bool = False) -> None:
    """Check, before the work, that the files (or directories) given by `--output` can be written.

    Raises:
      UsageError: one can't, or exists (a directory: with something in it) although it must not.
    """
    for path in paths:
        parent, exists = os.path.dirname(path.rstrip("/") if directories else path) or ".", os.path.exists(path)
        if not os.path.isdir(parent):
            raise UsageError(f"--output {path} can't be written: there is no directory {parent}")
        if exists and os.path.isdir(path) != directories:
            raise UsageError(f"--output {path} can't be written: it is {'a file' if directories else 'a directory'}")
        if not os.access(path if exists else parent, os.W_OK):
            raise UsageError(f"--output {path} can't be written: permission denied")
        if exists and not overwrite and (not directories or os.listdir(path)):
            raise UsageError(f"--output {path} exists already: choose another name, or --overwrite")
