"""The log directory of a run: one configuration, one learner at a time, and what it says."""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
from collections.abc import Iterator

from seed_rl.config_files import differences_from_saved
from seed_rl.experiment import ConfigError, Experiment
from seed_rl.launch.log_file import LogFile


class CannotUse(Exception):
    """A directory that a run can't be in; one sentence."""


@contextlib.contextmanager
def run_directory(logdir: str, experiment: Experiment, name: str) -> Iterator[None]:
    """The directory, there and locked against other learners, with what is logged going to its `learner.log`.

    Args:
      logdir: the directory.
      experiment: that is to run in it.
      name: of the directory for people.

    Raises:
      ConfigError: it holds a run of another configuration.
      CannotUse: it can't be written, or another learner is running in it.
    """
    found = differences_from_saved(experiment, logdir)
    if found:
        raise ConfigError(
            f"{name} holds a run of another configuration: {'; '.join(found)}. "
            "Choose another --logdir, or the configuration of that run to continue it"
        )
    try:
        os.makedirs(logdir, exist_ok=True)
        lock = open(os.path.join(logdir, "lock"), "w")  # noqa: SIM115 (held until the run ends)
    except OSError as error:
        raise CannotUse(f"--logdir {logdir} can't be used: {error.strerror}") from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise CannotUse(f"another learner is running in {name}") from None
        handler = LogFile(os.path.join(logdir, "learner.log"))
        ours = logging.getLogger("seed_rl")
        level = ours.level
        if ours.getEffectiveLevel() > logging.INFO:  # as in a program that has not configured logging
            ours.setLevel(logging.INFO)
        logging.getLogger().addHandler(handler)
        try:
            yield
        finally:
            ours.setLevel(level)
            logging.getLogger().removeHandler(handler)
            handler.close()
