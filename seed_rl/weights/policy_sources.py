"""Places other than log directories in which a policy may be, such as a bundle of a run, found by entry point."""

import contextlib
import os
from collections.abc import Callable, Iterator

from seed_rl.experiment import ConfigError
from seed_rl.system.entry_points import declarations
from seed_rl.system.files import StrPath

PolicySource = Callable[[str, str | None], contextlib.AbstractContextManager[str] | None]
"""Called with what a user gave as a log directory, a path, a URL or a name, and with the name of the wanted checkpoint,
as in `checkpoints.find`, or "" for none. Returns None if this source doesn't know the place, else a context whose value
is a directory that can be read like the log directory of a run, with `config.json` and
`checkpoints/checkpoint-<updates, 12 digits>.npz`, and that may be temporary. A source loads no TensorFlow."""

POLICY_SOURCES = "seed_rl.policy_sources"
"""The entry-point group in which packages declare each `PolicySource`."""


@contextlib.contextmanager
def opening(place: StrPath, checkpoint: str | None = None) -> Iterator[str]:
    """Yield the log directory of the policy at a place, from the first source that knows it; else the place itself.

    Errors of the source and in the context name the place instead of the directory. A URL that no source knows is a
    ConfigError.
    """
    place = os.fspath(place)
    for entry in declarations(POLICY_SOURCES):
        if (found := entry.load()(place, checkpoint)) is not None:
            with found as logdir:
                try:
                    yield logdir
                except Exception as error:
                    named = (each.replace(logdir, place) if isinstance(each, str) else each for each in error.args)
                    error.args = tuple(named)
                    raise
            return
    if "://" in place:
        raise ConfigError(f"{place} is a URL, and nothing here can read a run from it: expected a local directory")
    yield place
