"""The definition of a command: a function, its flags and its failures."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from seed_rl.cli.errors import Failure
from seed_rl.cli.flags import Flag
from seed_rl.envs.base import EnvironmentFailed


class Command(NamedTuple):
    """One command of `seed_rl`."""

    run: Callable[..., int]
    """Called with the flag values and the positional arguments; returns the exit code. Its docstring is the summary
    shown by `--help`. Errors defined by this package are printed as one sentence and exit with `USAGE_ERROR`."""
    example: str
    flags: tuple[Flag, ...]
    takes_paths: bool
    """Whether positional arguments are allowed."""
    failures: tuple[type[Exception], ...]
    """Errors that exit with `FAILURE`, including `Failure` and `EnvironmentFailed`."""

    @property
    def summary(self) -> str:
        """One-sentence description."""
        return self.run.__doc__ or ""


def command(
    example: str, *declared: Flag, takes_paths: bool = False, failures: tuple[type[Exception], ...] = ()
) -> Callable[[Callable[..., int]], Command]:
    """Turn a function into a command; `failures` are added to `Failure` and `EnvironmentFailed`."""
    return lambda function: Command(function, example, declared, takes_paths, (Failure, EnvironmentFailed, *failures))
