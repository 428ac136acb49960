"""What a command is: a function, its flags, and how it fails."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from seed_rl.cli.errors import Failure
from seed_rl.cli.flags import Flag
from seed_rl.envs.base import EnvironmentFailed


class Command(NamedTuple):
    """A command of the command line."""

    run: Callable[..., int]
    """Takes the values of the flags and the arguments without `--`; returns the exit code. Its docstring is the
    summary that `--help` shows. An error of this package is printed as a sentence and ends it with `USAGE_ERROR`."""
    example: str
    flags: tuple[Flag, ...]
    takes_paths: bool
    """Whether arguments without `--` are allowed."""
    failures: tuple[type[Exception], ...]
    """Errors that end it with `FAILURE`, in addition to `Failure` and `EnvironmentFailed`."""

    @property
    def summary(self) -> str:
        """One sentence."""
        return self.run.__doc__ or ""


def command(
    example: str, *declared: Flag, takes_paths: bool = False, failures: tuple[type[Exception], ...] = ()
) -> Callable[[Callable[..., int]], Command]:
    """Makes a command of a function."""
    return lambda function: Command(function, example, declared, takes_paths, (Failure, EnvironmentFailed, *failures))
