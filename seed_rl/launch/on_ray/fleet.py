"""The actors of a run as Ray actors, which follow the nodes of the cluster."""

from __future__ import annotations

import dataclasses
import importlib
import logging
import math
import os
import threading
import time
from collections.abc import Iterator
from typing import Any

import ray

from seed_rl.actor.loop import Actor
from seed_rl.envs.base import CannotBuild
from seed_rl.launch.local_actors import ActorFailed, Retries
from seed_rl.launch.on_ray.cluster import not_started, streamed, this_node, why_ended
from seed_rl.launch.run_directory import LogFile
from seed_rl.transport.address import parse_address
from seed_rl.transport.client import LearnerClient
from seed_rl.transport.credentials import ClientSecurity

_log = logging.getLogger(__name__)

_POLL_SECONDS = 0.5
_PATIENCE_SECONDS = 300.0
_SLOW_SECONDS = 20.0  # an actor that isn't running by then waits for room
_ANY_ADDRESS = ("0.0.0.0", "::")


@dataclasses.dataclass(frozen=True)
class ActorSpec:
    """What a node needs to run an actor."""

    security: ClientSecurity
    import_module: str
    """Registers the environment suite."""
    log_level: int
    address: str = ""
    """Of the learner."""


class RayActor:
    """Runs an actor."""

    def __init__(self):
        self._stopped = threading.Event()
        self._actor: Actor | None = None

    def run(self, spec: ActorSpec, delay: float) -> Iterator[Any]:
        """Acts until `stop`, after a delay in seconds; yields as `streamed`.

        Raises:
          CannotBuild, EnvironmentFailed, Rejected: as `Actor.run`.
          CannotBuild: the environment suite's module isn't installed on this node.
        """
        yield from streamed(lambda _: self._act(spec, delay), spec.log_level)

    def _act(self, spec: ActorSpec, delay: float) -> None:
        self._stopped.wait(delay)
        _log.info("looking for a learner at %s", spec.address)
        try:
            importlib.import_module(spec.import_module)
        except ImportError as error:
            where = this_node()[0]
            raise CannotBuild(f"{spec.import_module} can't be imported on {where}: {error}") from error
        self._actor = Actor(lambda: LearnerClient(spec.address, spec.security))
        if not self._stopped.is_set():
            self._actor.run()

    def stop(self) -> None:
        """Makes `run` return soon."""
        self._stopped.set()
        if self._actor is not None:
            self._actor.stop()


class RayActors:
    """Keeps as many actors running as the cluster has room for, up to `count`.

    All of them are requested from Ray at once: it spreads those that fit over the nodes and keeps the others waiting
    for more nodes. An actor that ends, or whose process or node is lost, is requested again.
    """

    def __init__(
        self,
        count: int,
        least: int,
        num_cpus: float,
        spec: ActorSpec,
        log_directory: str,
        patience: float = _PATIENCE_SECONDS,
    ):
        """
        Args:
          count: maximum number of actors.
          least: with fewer of them for `patience` seconds the run ends.
          num_cpus: that Ray sets aside for each.
          spec: of each, without the address.
          log_directory: of this node; each actor's log is `actor-<n>.log` there.
          patience: seconds.
        """
        self.failed: ActorFailed | None = None
        self._count = count
        self._least = least
        self._num_cpus = num_cpus
        self._spec = spec
        self._log_directory = log_directory
        self._patience = patience
        self._stop = threading.Event()
        self._watcher = threading.Thread(target=self._watch, daemon=True, name="ray-actors")
        self._slots: dict[Any, _Slot] = {}  # by the stream of the actor

    def start(self, address: str) -> None:
        """Requests the actors from Ray, for the learner at an address of this node."""
        os.makedirs(self._log_directory, exist_ok=True)
        listening = parse_address(address)
        if listening.host in _ANY_ADDRESS:
            listening = dataclasses.replace(listening, host=this_node()[0])
        self._spec = dataclasses.replace(self._spec, address=str(listening))
        for number in range(self._count):
            self._request(_Slot(number, os.path.join(self._log_directory, f"actor-{number}.log")))
        self._watcher.start()

    def stop(self, grace: float = 5.0) -> None:
        """Ends the actors: asks them to, and kills those that are left after `grace` seconds."""
        self._stop.set()
        if self._watcher.ident is None:
            return
        self._watcher.join()
        deadline = time.monotonic() + grace
        try:
            for slot in self._running():
                slot.actor.stop.remote()
            while self._running() and time.monotonic() < deadline:
                self._take_events(deadline - time.monotonic())
            for slot in self._slots.values():
                ray.kill(slot.actor)
        except ray.exceptions.RayError as error:
            _log.warning("the cluster can't be asked to end the actors: %s", why_ended(error))
        for slot in self._running():
            slot.close_log()

    def _running(self) -> list[_Slot]:
        return [slot for slot in self._slots.values() if slot.log is not None]

    def _request(self, slot: _Slot, delay: float = 0.0) -> None:
        """Asks Ray for an actor, which acts after a delay."""
        kind = ray.remote(RayActor).options(num_cpus=self._num_cpus, scheduling_strategy="SPREAD", max_concurrency=2)
        slot.actor = kind.remote()
        self._slots[slot.actor.run.options(num_returns="streaming").remote(self._spec, delay)] = slot

    def _watch(self) -> None:
        enough_at = changed_at = time.monotonic()
        before = 0
        try:
            while not self._stop.is_set():
                self._take_events(_POLL_SECONDS)
                now, running = time.monotonic(), len(self._running())
                if running != before:
                    before, changed_at = running, now
                elif running < self._count and now - changed_at > min(_SLOW_SECONDS, self._patience / 2):
                    changed_at = math.inf  # once after each change
                    waiting = "%d of %d actors run; the others wait for %g CPUs each"
                    _log.info(waiting, running, self._count, self._num_cpus)
                if running >= self._least:
                    enough_at = now
                elif now - enough_at > self._patience:
                    self._give_up(
                        f"{running} actors run and --min_actors asks for {self._least}: the cluster has had no room "
                        f"for them for {self._patience:.0f} s (each takes {self._num_cpus:g} CPUs)"
                    )
        except ray.exceptions.RayError as error:
            self._give_up(f"the actors are lost: {why_ended(error)}")

    def _take_events(self, timeout: float) -> None:
        """Handles an event of each stream that has one; waits for the first of them."""
        streams = list(self._slots)
        ready, _ = ray.wait(streams, timeout=timeout)
        if ready:
            ready, _ = ray.wait(streams, num_returns=len(streams), timeout=0)
        for stream in ready:
            slot = self._slots[stream]
            try:
                event = ray.get(next(stream))
            except StopIteration:
                self._ended(slot, stream, None)
            except ray.exceptions.RayError as error:
                self._ended(slot, stream, error)
            else:
                slot.take(event)

    def _ended(self, slot: _Slot, stream: Any, error: ray.exceptions.RayError | None) -> None:
        del self._slots[stream]
        ray.kill(slot.actor)
        lasted = slot.close_log()
        if self._stop.is_set():
            return
        if error is not None and not_started(error):
            self._give_up(f"actors can't start: {not_started(error)}")
            return
        why = why_ended(error) if error is not None else "it was asked to"
        delay = slot.retries.next_delay(lasted)
        if delay is None:
            self._give_up(
                f"actor {slot.number} ended {slot.retries.failures} times in a row: {why} (its log: {slot.path})"
            )
            return
        _log.warning("actor %d ended: %s; it starts again in %.1f s", slot.number, why, delay)
        self._request(slot, delay)

    def _give_up(self, sentence: str) -> None:
        self.failed = self.failed or ActorFailed(sentence)
        self._stop.set()


@dataclasses.dataclass(eq=False)
class _Slot:
    """One of the actors, however often it is started."""

    number: int
    path: str
    """Of its log."""
    retries: Retries = dataclasses.field(default_factory=Retries)
    actor: Any = None
    """Ray's handle."""
    log: LogFile | None = None
    """Open while it runs."""
    began: float = 0.0

    def take(self, event: str | logging.LogRecord) -> None:
        """Handles an event of its stream."""
        if isinstance(event, str):
            _log.info("actor %d runs on %s", self.number, event)
            self.began = time.monotonic()
            self.log = LogFile(self.path, f"%(asctime)s %(levelname).1s [{event}] %(name)s: %(message)s")
        elif self.log is not None:
            self.log.handle(event)

    def close_log(self) -> float:
        """Returns for how many seconds it ran."""
        if self.log is None:
            return 0.0
        self.log.close()
        self.log = None
        return time.monotonic() - self.began
