"""The actors of a run as Ray actors, which follow the nodes of the cluster."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import math
import os
import threading
import time
from collections.abc import Iterator
from typing import Any

import ray

from seed_rl.actor.loop import Actor
from seed_rl.envs import registry
from seed_rl.envs.base import CannotBuild
from seed_rl.runs.fleet import ActorFailed, Ended, Fleet
from seed_rl.runs.ray.cluster import not_started, streamed, this_node, why_ended
from seed_rl.runs.run_directory import LogFile
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
    import_modules: tuple[str, ...]
    """The one that registers the environment suite, and those that the environments need."""
    log_level: int
    address: str = ""
    """Of the learner."""


class RayActor:
    """Runs an actor."""

    _actor: Actor

    def run(self, spec: ActorSpec) -> Iterator[Any]:
        """Acts until `stop`; yields as `streamed`.

        Raises:
          CannotBuild, EnvironmentFailed, Rejected: as `Actor.run`.
          CannotBuild: the environment suite's module isn't installed on this node.
        """
        self._actor = Actor(lambda: LearnerClient(spec.address, spec.security))
        yield from streamed(lambda _: self._act(spec), spec.log_level)

    def _act(self, spec: ActorSpec) -> None:
        _log.info("looking for a learner at %s", spec.address)
        for module in spec.import_modules:
            try:
                registry.permit(module)
            except ImportError as error:
                raise CannotBuild(f"{module} can't be imported on {this_node()[0]}: {error}") from error
        self._actor.run()

    def stop(self) -> None:
        """Makes `run`, which has yielded something, return soon."""
        self._actor.stop()


@dataclasses.dataclass(eq=False)
class RayActors(Fleet):
    """Keeps as many actors running as the cluster has room for, up to `count`.

    All of them are requested from Ray at once: it spreads those that fit over the nodes and keeps the others waiting
    for more nodes. An actor that ends, or whose process or node is lost, is requested again.
    """

    least: int
    """With fewer actors for `patience` seconds the run ends."""
    num_cpus: float
    """That Ray sets aside for each."""
    spec: ActorSpec
    """Of each, without the address."""
    patience: float = _PATIENCE_SECONDS
    """Seconds."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._placed: set[int] = set()  # numbers of the actors that run; the others wait for room
        self._watcher = threading.Thread(target=self._watch, daemon=True, name="ray-actors")

    def start(self, address: str) -> None:
        """Requests the actors from Ray, for the learner at an address of this node."""
        os.makedirs(self.log_directory, exist_ok=True)
        listening = parse_address(address)
        if listening.host in _ANY_ADDRESS:
            listening = dataclasses.replace(listening, host=this_node()[0])
        self.spec = dataclasses.replace(self.spec, address=str(listening))
        super().start(address)
        self._watcher.start()

    def stop(self, grace: float = 5.0) -> None:
        """Ends the actors: those that wait for room at once, the others as in `Fleet`."""
        try:
            super().stop(grace)
        except ray.exceptions.RayError as error:
            _log.warning("the cluster can't be asked to end the actors: %s", why_ended(error))

    def _run(self, number: int, log: str) -> Ended:
        kind = ray.remote(RayActor).options(num_cpus=self.num_cpus, scheduling_strategy="SPREAD", max_concurrency=2)
        actor: Any = kind.remote()
        with self._reachable(number, actor):
            try:
                stream = actor.run.options(num_returns="streaming").remote(self.spec)
                node = ray.get(next(stream))
                self._placed.add(number)
                self._began(number)
                _log.info("actor %d runs on %s", number, node)
                line = f"%(asctime)s %(levelname).1s [{node}] %(name)s: %(message)s"
                with contextlib.closing(LogFile(log, line)) as file:
                    for record in stream:
                        file.handle(ray.get(record))
            except ray.exceptions.RayError as error:
                if not_started(error):
                    raise ActorFailed(f"actors can't start: {not_started(error)}") from error
                if isinstance(error, CannotBuild):
                    raise ActorFailed(f"actor {number} can't run: {why_ended(error)} (its log: {log})") from error
                return Ended(why_ended(error), killed=not isinstance(error, ray.exceptions.RayTaskError))
            finally:
                self._placed.discard(number)
                ray.kill(actor)
        return Ended("it was asked to")

    def _end(self, number: int, handle: Any, kill: bool) -> None:
        if kill or number not in self._placed:
            ray.kill(handle)
        else:
            handle.stop.remote()

    def _watch(self) -> None:
        """Gives up when fewer than `least` actors have run for too long; logs how many wait for room."""
        enough_at = changed_at = time.monotonic()
        before = 0
        while not self._stopping.wait(_POLL_SECONDS):
            now, running = time.monotonic(), len(self._placed)
            if running != before:
                before, changed_at = running, now
            elif running < self.count and now - changed_at > min(_SLOW_SECONDS, self.patience / 2):
                changed_at = math.inf  # once after each change
                waiting = "%d of %d actors run; the others wait for %g CPUs each"
                _log.info(waiting, running, self.count, self.num_cpus)
            if running >= self.least:
                enough_at = now
            elif now - enough_at > self.patience:
                sentence = (
                    f"{running} actors run and --min_actors asks for {self.least}: the cluster has had no room for "
                    f"them for {self.patience:.0f} s (each takes {self.num_cpus:g} CPUs)"
                )
                self._give_up(ActorFailed(sentence))
                return
