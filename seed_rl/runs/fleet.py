"""The actors of a run, and fleets in which a thread for each actor restarts it when it ends."""

from __future__ import annotations

import abc
import contextlib
import dataclasses
import logging
import os
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from seed_rl.actor.loop import growing_delays
from seed_rl.system.files import reason

_log = logging.getLogger(__name__)

STABLE_SECONDS = 30.0
"""An actor that fails sooner after its start has failed early."""


class ActorFailed(RuntimeError):
    """Actors that were given up; the message quotes one of them and names its log."""


class Ended(NamedTuple):
    """The end of an actor."""

    how: str
    """In one line."""
    killed: bool = False
    """Whether it was ended from outside, or lost with its node; any other end is a failure of its own."""


class Fleet(abc.ABC):
    """The actors of a run."""

    failed: ActorFailed | None
    """Why they were given up, which ends the run."""

    @abc.abstractmethod
    def start(self, address: str) -> None:
        """Starts them, for the learner at an address."""

    @abc.abstractmethod
    def stop(self) -> None:
        """Ends them."""


@dataclasses.dataclass(eq=False)
class SupervisedFleet(Fleet):
    """Keeps the `count` actors of a run running until stopped.

    An actor that ends is restarted after a delay, which grows if it keeps ending within 30 s of its start: for ever if
    it is killed, `max_failures` times if it fails. A subclass says how one actor runs and ends.
    """

    count: int
    """Maximum number of actors."""
    log_directory: str
    """Where their logs are, `actor-<n>.log`."""
    _: dataclasses.KW_ONLY
    on_failure: Callable[[], None] = lambda: None
    """Called once `failed` is set."""
    max_failures: int = 3
    """An actor that fails this often in a row, without running for 30 s, is given up; to be killed is no failure."""

    def __post_init__(self) -> None:
        self.failed = None
        self.restarts = 0
        self._address = ""  # of the learner
        self._handles: dict[int, Any] = {}  # of the actors that can be ended, by their numbers
        self._starts: dict[int, float] = {}  # of the actors, by their numbers
        self._stopping = threading.Event()
        self._lock = threading.Lock()
        self._reported: set[str] = set()
        self._threads = [
            threading.Thread(target=self._keep, args=(n,), name=f"actor-{n}", daemon=True) for n in range(self.count)
        ]

    def start(self, address: str) -> None:
        """Starts them, for the learner at an address."""
        self._address = address
        for thread in self._threads:
            thread.start()

    def stop(self, grace: float = 1.5) -> None:
        """Ends them: asks them to, and kills those that are left after `grace` seconds."""
        self._stopping.set()
        for kill in (False, True):
            self._end_all(kill)
            deadline = time.monotonic() + grace
            for thread in self._threads:
                if thread.ident is not None:  # it was started
                    thread.join(max(0.0, deadline - time.monotonic()))
        stuck = sum(thread.is_alive() for thread in self._threads)
        if stuck:
            _log.error("%d of %d actors are stuck, and left behind", stuck, self.count)

    @abc.abstractmethod
    def _run(self, number: int, log: str) -> Ended:
        """Runs an actor, `_reachable` by its handle, until it ends.

        Args:
          number: of the actor.
          log: path of its log.

        Raises:
          ActorFailed: it would fail again.
          OSError: it can't be started, but may be later.
        """

    @abc.abstractmethod
    def _end(self, number: int, handle: Any, kill: bool) -> None:
        """Asks an actor to end, or kills it."""

    @contextlib.contextmanager
    def _reachable(self, number: int, handle: Any) -> Iterator[None]:
        """Lets `stop` end an actor by its handle."""
        self._handles[number] = handle
        try:
            if self._stopping.is_set():  # `stop` may not have seen it
                self._end(number, handle, kill=False)
            yield
        finally:
            del self._handles[number]

    def _end_all(self, kill: bool) -> None:
        for number, handle in list(self._handles.items()):
            self._end(number, handle, kill)

    def _keep(self, number: int) -> None:
        delays, failures = growing_delays(), 0
        log = os.path.join(self.log_directory, f"actor-{number}.log")
        while not self._stopping.is_set():
            self._starts[number] = time.monotonic()
            try:
                ended = self._run(number, log)
            except OSError as error:  # no log file, no process: both may be possible again later
                ended = Ended(f"it can't be started: {reason(error)}")
            except ActorFailed as failed:
                self._give_up(failed)
                return
            was_stable = time.monotonic() - self._starts[number] > STABLE_SECONDS
            if was_stable:
                delays, failures = growing_delays(), 0
            failures += not ended.killed
            if failures >= self.max_failures:
                times = f"actor {number} ended {failures} times in a row"
                self._give_up(ActorFailed(f"{times}: {ended.how} (its log: {log})"))
                return
            if self._stopping.is_set():
                return
            with self._lock:
                self.restarts += 1
                # One warning stands for many actors that fail at their start for the same reason, and fail again.
                repeated = ended.how in self._reported and not was_stable and not ended.killed
                self._reported.add(ended.how)
            delay, level = next(delays), logging.DEBUG if repeated else logging.WARNING
            sentence = "actor %d ended: %s; it starts again in %.1f s (its log: %s)"
            _log.log(level, sentence, number, ended.how, delay, log)
            self._stopping.wait(delay)

    def _give_up(self, failed: ActorFailed) -> None:
        """Ends the run; the other actors mostly end for the same reason, and the first is quoted."""
        if self._stopping.is_set():
            return
        with self._lock:
            self.failed = self.failed or failed
        self.on_failure()
