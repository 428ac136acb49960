"""Fleets: the actors of a run, supervised by one thread per actor that restarts it when it ends."""

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
from seed_rl.errors import Failure
from seed_rl.system.files import reason
from seed_rl.transport.address import parse_address

_log = logging.getLogger(__name__)

STABLE_SECONDS = 30.0
"""A failure within this time of the actor's start counts as early."""
MAX_FAILURES = 3
"""Number of early failures in a row after which an actor is given up; kills don't count."""


class ActorFailed(Failure):
    """The actors keep failing; the message quotes one of them and names its log."""


class ActorEnd(NamedTuple):
    """The way in which an actor ended."""

    how: str
    killed: bool = False
    """Whether it was killed from outside or lost with its node; any other end counts as a failure."""


class Fleet(abc.ABC):
    """The actors of a run."""

    failed: ActorFailed | None = None
    """Error that ends the run because its actors keep failing; None if there is none."""

    @abc.abstractmethod
    def start(self, address: str) -> None:
        """Start the actors for the learner at an address."""

    @abc.abstractmethod
    def stop(self) -> None:
        """Stop the actors."""


@dataclasses.dataclass(eq=False)
class SupervisedFleet(Fleet):
    """Keeps `count` actors running until stopped.

    An actor that ends is restarted after a delay, which grows if it keeps ending within 30 s of its start. Kills are
    followed by restarts indefinitely, failures up to `MAX_FAILURES`. Subclasses define how to run and stop an actor.
    """

    count: int
    log_directory: str
    """Directory of the actors' logs, `actor-<n>.log`."""
    _: dataclasses.KW_ONLY
    on_failure: Callable[[], None] = lambda: None
    """Called when `failed` is set."""

    def __post_init__(self) -> None:
        self.restarts = 0
        self._address = ""  # learner's
        self._handles: set[Any] = set()  # of actors that can be stopped
        self._stopping = threading.Event()
        self._lock = threading.Lock()
        self._reported: set[str] = set()
        self._threads: list[threading.Thread] = []

    def start(self, address: str) -> None:
        listening = parse_address(address)
        self._address = f"localhost:{listening.port}" if listening.is_everywhere else address
        for n in range(self.count):
            thread = threading.Thread(target=self._keep, args=(n,), name=f"actor-{n}", daemon=True)
            thread.start()
            self._threads.append(thread)

    def stop(self, grace: float = 1.5) -> None:
        """Ask the actors to end, and kill those still running after `grace` seconds."""
        self._stopping.set()
        for kill in (False, True):
            for handle in list(self._handles):
                self._end(handle, kill)
            deadline = time.monotonic() + grace
            for thread in self._threads:
                thread.join(max(0.0, deadline - time.monotonic()))
        if stuck := sum(thread.is_alive() for thread in self._threads):
            _log.error("%d of %d actors don't respond and are left running", stuck, self.count)

    @abc.abstractmethod
    def _run(self, number: int, log: str) -> ActorEnd | None:
        """Run an actor, made `_reachable` by a handle, until it ends; None says that it ended with the run.

        Raise ActorFailed if restarting it is useless, and OSError if it can't be started now but perhaps later.
        """

    @abc.abstractmethod
    def _end(self, handle: Any, kill: bool) -> None:
        """Ask an actor to end, or kill it."""

    @contextlib.contextmanager
    def _reachable(self, handle: Any) -> Iterator[None]:
        """Register the handle by which `stop` ends an actor."""
        self._handles.add(handle)
        try:
            if self._stopping.is_set():  # `stop` may have missed this handle
                self._end(handle, kill=False)
            yield
        finally:
            self._handles.remove(handle)

    def _keep(self, number: int) -> None:
        delays, failures = growing_delays(), 0
        log = os.path.join(self.log_directory, f"actor-{number}.log")
        while not self._stopping.is_set():
            started = time.monotonic()
            try:
                ended = self._run(number, log)
            except OSError as error:  # the log or process can't be created, perhaps only for now
                ended = ActorEnd(f"it can't be started: {reason(error)}")
            except ActorFailed as failed:
                self._give_up(failed)
                return
            if ended is None or self._stopping.is_set():
                return
            was_stable = time.monotonic() - started > STABLE_SECONDS
            if was_stable:
                delays, failures = growing_delays(), 0
            failures += not ended.killed
            if failures >= MAX_FAILURES:
                times = f"actor {number} ended {failures} times in a row"
                self._give_up(ActorFailed(f"{times}: {ended.how} (log: {log})"))
                return
            with self._lock:
                self.restarts += 1
                # Warn once if many actors repeatedly fail at the start for the same reason.
                repeated = ended.how in self._reported and not was_stable and not ended.killed
                self._reported.add(ended.how)
            delay, level = next(delays), logging.DEBUG if repeated else logging.WARNING
            sentence = "actor %d ended: %s; restarting in %.1f s (log: %s)"
            _log.log(level, sentence, number, ended.how, delay, log)
            self._stopping.wait(delay)

    def _give_up(self, failed: ActorFailed) -> None:
        """End the run, quoting the first failure because the others usually have the same reason."""
        if not self._stopping.is_set():
            with self._lock:
                self.failed = self.failed or failed
            self.on_failure()
