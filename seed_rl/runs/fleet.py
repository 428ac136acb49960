"""The actors of a run: processes or threads of this machine, and one thread per actor that restarts it when it ends."""

import abc
import contextlib
import dataclasses
import importlib
import logging
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from seed_rl.actor.loop import Actor, growing_delays
from seed_rl.errors import Failure, UsageError
from seed_rl.experiment import Experiment
from seed_rl.system import children, signals
from seed_rl.system.files import reason
from seed_rl.transport.address import parse_address
from seed_rl.transport.client import LearnerClient
from seed_rl.transport.credentials import ClientSecurity

_log = logging.getLogger(__name__)

PROCESSES = "processes"
"""Run each actor in its own process and restart it when it ends (the default)."""
THREADS = "threads"
"""Run actors as threads of this process, for debugging or for environments defined only in this process."""
ELSEWHERE = "elsewhere"
"""Start no actors: wait for `seed_rl actor` processes."""
ACTORS = (PROCESSES, THREADS, ELSEWHERE)

STABLE_SECONDS = 30.0
"""A failure within this time of the actor's start counts as early."""
MAX_FAILURES = 3
"""Number of early failures in a row after which an actor is given up; kills don't count."""
_FROM_OUTSIDE = (signal.SIGKILL, *signals.ALL)  # SIGKILL also comes from the kernel


class ActorFailed(Failure):
    """The actors keep failing; the message quotes one of them and names its log."""


class ActorEnd(NamedTuple):
    """The way in which an actor ended."""

    how: str
    killed: bool = False
    """Whether it was killed from outside or lost with its node; any other end counts as a failure."""
    useless: bool = False
    """Whether another start is no use; if an earlier one has lasted, something has changed, perhaps for a while."""


@dataclasses.dataclass
class Endings:
    """How often an actor has ended, which decides whether it is started again."""

    name: str
    log: str
    failures: int = 0
    """Number of early failures in a row."""
    has_lasted: bool = False
    """Whether it has once run for longer than `STABLE_SECONDS`."""

    def add(self, end: ActorEnd, seconds: float) -> bool:
        """Count an end; return whether it came later than `STABLE_SECONDS`, or raise ActorFailed to start no more."""
        was_stable = seconds > STABLE_SECONDS and not end.useless  # building may take long
        if was_stable:
            self.failures, self.has_lasted = 0, True
        elif end.useless and not self.has_lasted:
            raise ActorFailed(f"{self.name} can't run: {end.how} (log: {self.log})")
        else:
            self.failures += not end.killed
        if self.failures >= MAX_FAILURES:
            raise ActorFailed(f"{self.name} ended {self.failures} times in a row: {end.how} (log: {self.log})")
        return was_stable


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
            thread = threading.Thread(target=self._supervise, args=(n,), name=f"actor-{n}", daemon=True)
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

        Raise ActorFailed if it must not be restarted, and OSError if it can't be started now but perhaps later.
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

    def _supervise(self, number: int) -> None:
        try:
            self._keep(number)
        except ActorFailed as failed:
            if not self._stopping.is_set():
                with self._lock:  # the first failure: the others usually have the same reason
                    self.failed = self.failed or failed
                self.on_failure()

    def _keep(self, number: int) -> None:
        log = os.path.join(self.log_directory, f"actor-{number}.log")
        delays, endings = growing_delays(), Endings(f"actor {number}", log)
        while not self._stopping.is_set():
            started = time.monotonic()
            try:
                ended = self._run(number, log)
            except OSError as error:  # the log or process can't be created, perhaps only for now
                ended = ActorEnd(f"it can't be started: {reason(error)}")
            if ended is None or self._stopping.is_set():
                return
            was_stable = endings.add(ended, time.monotonic() - started)
            if was_stable:
                delays = growing_delays()
            with self._lock:
                self.restarts += 1
                # Warn once if many actors repeatedly fail at the start for the same reason.
                repeated = ended.how in self._reported and not was_stable and not ended.killed
                self._reported.add(ended.how)
            delay, level = next(delays), logging.DEBUG if repeated else logging.WARNING
            sentence = "actor %d ended: %s; restarting in %.1f s (log: %s)"
            _log.log(level, sentence, number, ended.how, delay, log)
            self._stopping.wait(delay)


@dataclasses.dataclass(eq=False)
class LocalActors(SupervisedFleet):
    """Actors as processes, which read from a pipe that only this process keeps open, and so end with it in any case."""

    arguments: Sequence[str] = ()
    """Arguments of `seed_rl actor` except the address."""

    def _run(self, number: int, log: str) -> ActorEnd | None:
        def wait(process: subprocess.Popen[bytes]) -> int:
            with self._reachable(process):
                return self._wait(number, process)

        arguments = [*self._arguments(number), f"--server_address={self._address}"]
        command = children.seed_rl("actor", "--exit_with_parent", *arguments)
        code, how = children.run_logged(command, log, wait)
        # An actor that ends after a signal exits with 128 plus the signal's number.
        killed = any(code in (-number, 128 + number) for number in _FROM_OUTSIDE)
        return ActorEnd(how, killed, useless=code == UsageError.exit_code) if code else None

    def _wait(self, number: int, process: subprocess.Popen[bytes]) -> int:
        return process.wait()

    def _arguments(self, number: int) -> Sequence[str]:
        return self.arguments

    def _end(self, handle: subprocess.Popen[bytes], kill: bool) -> None:
        handle.kill() if kill else handle.terminate()


@dataclasses.dataclass(eq=False)
class ActorThreads(SupervisedFleet):
    """Actors as threads of the learner's process; the first failure ends the run."""

    hang_timeout: float = 60.0

    def _run(self, number: int, log: str) -> None:
        name, limit = f"actor {number}", self.hang_timeout
        actor = Actor(lambda: LearnerClient(self._address, ClientSecurity()), name=name, hang_timeout=limit)
        try:
            with self._reachable(actor):
                actor.run()
        except Exception as error:  # whose sentence may be long
            raise ActorFailed(f"actor {number} failed: {error}") from error

    def _end(self, handle: Actor, kill: bool) -> None:
        handle.stop()


def local_actors(kind: str, experiment: Experiment, logs: str, arguments: Sequence[str] = ()) -> Fleet:
    """Build an experiment's actors of a kind in `ACTORS`, with a directory for their logs and flags for processes."""
    count, env = experiment.actors.num_actors, experiment.env
    modules = dict.fromkeys(env.modules + experiment.eval_env.modules)
    if kind == PROCESSES:
        imports = [f"--import_module={module}" for module in (type(env).__module__, *modules)]
        watched = f"--hang_timeout={experiment.actors.hang_timeout_s}"
        return LocalActors(count, logs, [*imports, watched, *arguments])
    for module in modules if kind == THREADS else ():
        with contextlib.suppress(ImportError):  # the environments report it
            importlib.import_module(module)
    return ActorThreads(count if kind == THREADS else 0, logs, experiment.actors.hang_timeout_s)
