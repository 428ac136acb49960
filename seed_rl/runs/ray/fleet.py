"""The actors of a run as Ray actors, which follow the nodes of the cluster."""

from __future__ import annotations

import concurrent.futures
import dataclasses
import logging
import logging.handlers
import math
import os
import queue
import threading
import time
from collections.abc import Iterator
from typing import Any

import ray

from seed_rl.actor.loop import Actor
from seed_rl.envs import registry
from seed_rl.envs.base import CannotBuild
from seed_rl.runs.fleet import STABLE_SECONDS, ActorFailed, Fleet
from seed_rl.runs.ray.cluster import this_node
from seed_rl.runs.run_directory import PrintableFormatter
from seed_rl.system.files import Outage
from seed_rl.transport.address import parse_address
from seed_rl.transport.client import LearnerClient
from seed_rl.transport.credentials import ClientSecurity

_log = logging.getLogger(__name__)

_POLL_SECONDS = 0.5
_GRACE_SECONDS = 5.0
_SLOW_SECONDS = 20.0  # an actor that isn't running by then waits for room
_MAX_FAILURES = 3  # in a row, each soon after a start; lost processes and nodes don't count
# Calls wait until a lost actor is back; each call says that it is not to be repeated by Ray.
_RESTARTED = {"max_restarts": -1, "max_task_retries": -1, "scheduling_strategy": "SPREAD", "max_concurrency": 2}


class RayActor:
    """An actor on a node of the cluster."""

    _actor: Actor

    def run(self, address: str, security: ClientSecurity, modules: tuple[str, ...], log_level: int) -> Iterator[str]:
        """Acts until `stop`. Ray keeps the arguments of constructors, so credentials are given here.

        Yields:
          A description of this process, then lines of its log.

        Raises:
          CannotBuild, EnvironmentFailed, Rejected: as `Actor.run`.
          CannotBuild: a module of the environments isn't installed on this node.
        """
        self._actor = Actor(lambda: LearnerClient(address, security))
        here = this_node()[1]
        records: queue.SimpleQueue[logging.LogRecord] = queue.SimpleQueue()
        handler = logging.handlers.QueueHandler(records)
        handler.setFormatter(PrintableFormatter(f"%(asctime)s %(levelname).1s [{here}] %(name)s: %(message)s"))
        logging.getLogger().addHandler(handler)
        logging.getLogger().setLevel(log_level)
        yield here
        _log.info("looking for a learner at %s", address)
        with concurrent.futures.ThreadPoolExecutor(1, thread_name_prefix="actor") as pool:
            acting = pool.submit(self._act, modules)
            while not (acting.done() and records.empty()):
                concurrent.futures.wait([acting], _POLL_SECONDS)
                lines = [f"{records.get().getMessage()}\n" for _ in range(records.qsize())]
                if lines:
                    yield "".join(lines)
        acting.result()

    def _act(self, modules: tuple[str, ...]) -> None:
        for module in modules:
            try:
                registry.permit(module)
            except ImportError as error:
                raise CannotBuild(f"{module} can't be imported on {this_node()[0]}: {error}") from error
        self._actor.run()

    def stop(self) -> None:
        """Makes `run`, which has yielded something, return soon."""
        self._actor.stop()


@dataclasses.dataclass(eq=False)
class _Member:
    """An actor of the fleet, as the learner's process knows it."""

    name: str
    log: str
    handle: Any
    began: float | None = None
    """Time of its start; None while it waits for a place."""
    failures: int = 0
    """Early ones in a row."""


@dataclasses.dataclass(eq=False)
class RayActors(Fleet):
    """Keeps as many actors running as the cluster has room for, up to `count`.

    All of them are requested from Ray at once: it spreads those that fit over the nodes, keeps the others waiting for
    more nodes, and restarts an actor whose process or node is lost. One thread listens to all of them.
    """

    count: int
    """Maximum number of actors."""
    log_directory: str
    """Directory of their logs, `actor-<n>.log`."""
    least: int
    """With fewer actors for `patience` seconds the run ends."""
    num_cpus: float
    """CPUs that Ray sets aside for each actor."""
    security: ClientSecurity
    """Credentials of the actors."""
    modules: tuple[str, ...]
    """The module that registers the environment suite, and those that the environments need."""
    patience: float = 300.0
    """Seconds."""

    def __post_init__(self) -> None:
        self.failed = None
        self._address = ""
        self._members: dict[Any, _Member] = {}  # by the streams of their logs
        self._running, self._changed_at, self._enough_at = 0, 0.0, 0.0
        self._outage = Outage("logs of actors", "the lines are lost", _log)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True, name="ray-actors")

    def start(self, address: str) -> None:
        """Requests the actors from Ray, for the learner at an address of this node."""
        os.makedirs(self.log_directory, exist_ok=True)
        listening = parse_address(address)
        if listening.host in ("0.0.0.0", "::"):
            listening = dataclasses.replace(listening, host=this_node()[0])
        self._address = str(listening)
        self._thread.start()

    def stop(self) -> None:
        """Ends the actors: those that wait for room at once, the others when they have closed their environments."""
        self._stopping.set()
        if self._thread.ident is not None:  # it was started
            self._thread.join(2 * _GRACE_SECONDS)

    def _watch(self) -> None:
        try:
            self._keep()
        except Exception as error:  # Ray's own are of many kinds, and nobody else watches the actors
            _log.debug("the actors are not watched any more", exc_info=error)
            self._give_up(f"the Ray cluster can't be used any more: {_first_line(error)}")

    def _keep(self) -> None:
        kind: Any = ray.remote(num_cpus=self.num_cpus, **_RESTARTED)(RayActor)
        members = []
        for name in (f"actor-{number}" for number in range(self.count)):
            log = os.path.join(self.log_directory, f"{name}.log")
            members.append(_Member(name, log, kind.options(name=name).remote()))
            self._call(members[-1])
        self._changed_at = self._enough_at = time.monotonic()
        while not self._stopping.is_set():
            self._listen()
            self._look_for_room()
        for member in members:
            if member.began:
                member.handle.stop.options(max_task_retries=0).remote()
            else:
                ray.kill(member.handle)
        deadline = time.monotonic() + _GRACE_SECONDS
        while any(member.began for member in members) and time.monotonic() < deadline:
            self._listen()
        for member in members:
            ray.kill(member.handle)

    def _call(self, member: _Member) -> None:
        """Makes an actor act as soon as it has a place."""
        call = member.handle.run.options(num_returns="streaming", max_task_retries=0)
        self._members[call.remote(self._address, self.security, self.modules, logging.getLogger().level)] = member

    def _listen(self) -> None:
        """Waits for half a second, and takes one message of each actor that has sent something."""
        streams = list(self._members)
        for stream in ray.wait(streams, num_returns=len(streams), timeout=_POLL_SECONDS)[0]:
            member = self._members[stream]
            try:
                text = ray.get(next(stream))
            except (StopIteration, ray.exceptions.RayError) as error:
                del self._members[stream]
                began, member.began = member.began, None
                if not self._stopping.is_set():
                    self._ended(member, began, error)
                continue
            if member.began:
                with self._outage.tolerated(), open(member.log, "a", encoding="utf-8") as file:
                    file.write(text)
            else:
                member.began = time.monotonic()
                _log.info("%s runs on %s", member.name, text)

    def _ended(self, member: _Member, began: float | None, error: Exception) -> None:
        """Gives up, or makes the actor act again in a new process."""
        how, log = "its process or node is lost", f"(its log: {member.log})"
        if isinstance(error, ray.exceptions.ActorDiedError):  # for good
            why = str(error).strip().splitlines()[-1].strip()
            return self._give_up(f"actors can't start: {why}; every node needs seed_rl and all that it imports")
        if isinstance(error, ray.exceptions.RayTaskError):
            how = _first_line(error.cause)
            if isinstance(error, CannotBuild):
                return self._give_up(f"{member.name} can't run: {how} {log}")
            stable = began is not None and time.monotonic() - began > STABLE_SECONDS
            member.failures = 1 if stable else member.failures + 1
            if member.failures == _MAX_FAILURES:
                return self._give_up(f"{member.name} ended {_MAX_FAILURES} times in a row: {how} {log}")
            ray.kill(member.handle, no_restart=False)
        _log.warning("%s ended: %s; Ray starts it again %s", member.name, how, log)
        return self._call(member)

    def _look_for_room(self) -> None:
        """Gives up when fewer than `least` actors have run for too long; logs how many wait for room."""
        now, running = time.monotonic(), sum(member.began is not None for member in self._members.values())
        if running != self._running:
            self._running, self._changed_at = running, now
        elif running < self.count and now - self._changed_at > min(_SLOW_SECONDS, self.patience / 2):
            self._changed_at = math.inf  # once after each change
            sentence = "%d of %d actors run; the others wait for %g CPUs each"
            _log.info(sentence, running, self.count, self.num_cpus)
        if running >= self.least:
            self._enough_at = now
        elif now - self._enough_at > self.patience:
            self._give_up(
                f"{running} actors run and --min_actors asks for {self.least}: the cluster has had no room for them "
                f"for {self.patience:.0f} s (each takes {self.num_cpus:g} CPUs)"
            )

    def _give_up(self, why: str) -> None:
        """Ends the run; the other actors mostly end for the same reason, and the first is quoted."""
        self.failed = self.failed or ActorFailed(why)
        self._stopping.set()


def _first_line(error: BaseException | None) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__)
