"""Runs that are recorded in a journal, or whose acting and learning alternate: both can be reproduced bit for bit."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import Any

from seed_rl.experiment import ConfigError, Experiment
from seed_rl.inference.order import FREE, Order, Synchronous
from seed_rl.journal import file
from seed_rl.journal.file import JournalError
from seed_rl.journal.recorded import Recorded
from seed_rl.system.files import explained
from seed_rl.system.machine import make_deterministic, threads, versions


def check_repeatable(experiment: Experiment, hosts: int) -> None:
    """Check that a run can be repeated.

    Raises:
      ConfigError: it can't be.
    """
    if hosts > 1:
        raise ConfigError(f"a run of {hosts} learner hosts can't be recorded or synchronous, only one of a single host")
    if not experiment.env.repeatable:
        raise ConfigError(f"{experiment.env.title} does not repeat an episode for the same seed and actions")


@contextlib.contextmanager
def repeatable(experiment: Experiment, logdir: str, record: bool, synchronous: bool) -> Iterator[Order]:
    """Make the computations of this process repeatable, and yield the order of a run.

    Args:
      experiment: experiment of the run.
      logdir: log directory that gets the journal.
      record: whether to write one.
      synchronous: whether acting and learning alternate.

    Raises:
      ConfigError: the journal can't be continued, or TensorFlow has been used before.
    """
    machine = deterministic(threads())
    order = Synchronous() if synchronous else FREE
    if not record:
        yield order
        return
    start = {"settings": experiment.to_json(), "versions": versions(), "machine": machine}
    with explained(ConfigError, "the journal can't be continued", JournalError, OSError):
        journal = file.Writer(os.path.join(logdir, file.NAME))
    logs = experiment.logs
    recorded = Recorded(journal, start, logs.digest_updates, logs.keep_every_frames, order)
    try:
        yield recorded
    finally:
        recorded.close()


def deterministic(number_of_threads: int) -> dict[str, Any]:
    """Call `make_deterministic`.

    Raises:
      ConfigError: it comes too late.
    """
    what = f"TensorFlow was used before with another number of threads than {number_of_threads}"
    with explained(ConfigError, what, RuntimeError):
        return make_deterministic(number_of_threads)
