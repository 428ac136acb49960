"""Log directories that are not on this machine, such as those in object stores: a neighbour keeps them."""

import contextlib
from collections.abc import Callable
from typing import NamedTuple

from seed_rl.runs.run_directory import CannotUse
from seed_rl.system.entry_points import declared


class Keeper(NamedTuple):
    """Keeps runs in places of one kind; declared under an entry point. Its functions raise `CannotUse`."""

    keeps: Callable[[str], bool]
    """Called with a log directory; returns whether it is of this kind."""
    working_directory: Callable[[str, float], contextlib.AbstractContextManager[str]]
    """Called with the log directory and the seconds between checkpoints. The context's value is the local directory in
    which the run works. When the context is left, the place has all of its files."""
    check: Callable[[str], str]
    """Called with the log directory of a planned run; returns one line about the place if it can keep the run."""


KEEPERS = "seed_rl.keepers"
"""The entry-point group in which packages declare each `Keeper`."""


def keeper_of(logdir: str) -> Keeper | None:
    """Return the keeper of a log directory; None if it is one of this machine.

    Raises:
      CannotUse: it is a URL that no keeper knows.
    """
    for entry in declared(KEEPERS):
        keeper: Keeper = entry.load()
        if keeper.keeps(logdir):
            return keeper
    if "://" in logdir:
        raise CannotUse(f"{logdir} is a URL, and nothing here can keep a run there: expected a local directory")
    return None


def working_directory(logdir: str, seconds: float) -> contextlib.AbstractContextManager[str]:
    """Return a context with the local directory in which a run works: its log directory, or what the keeper gives."""
    keeper = keeper_of(logdir)
    return keeper.working_directory(logdir, seconds) if keeper else contextlib.nullcontext(logdir)
