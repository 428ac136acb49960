"""Places other than log directories in which a policy may be, such as a bundle of a run, found by entry point."""

import contextlib
import os
from collections.abc import Callable, Iterator

from seed_rl.system.entry_points import declared
from seed_rl.system.files import StrPath

PolicySource = Callable[[str], contextlib.AbstractContextManager[str] | None]
"""Called with what a user gave as a log directory: a path, a URL or a name. Returns None if this source doesn't know
it, else a context whose value is a directory that can be read like the log directory of a run, with `config.json` and
`checkpoints/checkpoint-<updates, 12 digits>.npz`, and that may be temporary. A source loads no TensorFlow. It may raise
a `CheckpointError` or a `ConfigError`."""

POLICY_SOURCES = "seed_rl.policy_sources"
"""The entry-point group in which packages declare each `PolicySource`."""


@contextlib.contextmanager
def opened(place: StrPath) -> Iterator[str]:
    """Yield the log directory of the policy at a place: that of the first source that knows it, else the place itself.

    Raises:
      CheckpointError, ConfigError, CannotReach: a source knows the place, but can't use it.
    """
    place = os.fspath(place)
    for entry in declared(POLICY_SOURCES):
        if (found := entry.load()(place)) is not None:
            with found as logdir:
                yield logdir
            return
    yield place
