"""What runs in the Ray actors of a fleet: an actor of ours in each, and one that writes their logs."""

from __future__ import annotations

import dataclasses
import importlib
import logging
import os
import time
from typing import Any, NamedTuple

import ray

from seed_rl.actor.loop import Actor
from seed_rl.envs.base import CannotBuild, EnvironmentFailed
from seed_rl.launch.log_file import LogFile
from seed_rl.launch.on_ray.cluster import this_node
from seed_rl.launch.on_ray.keys import Badge
from seed_rl.transport.backoff import Backoff
from seed_rl.transport.client import LearnerClient, Rejected

_log = logging.getLogger(__name__)

_STABLE_SECONDS = 30.0  # an actor that lived so long starts anew without back-off
_MAX_FAILURES = 3


class Began(NamedTuple):
    """An actor has begun, on a node."""

    number: int
    node: str
    """Its id."""
    at: float
    """`time.time()` there."""


class Scribe:
    """Writes the log of every actor, on the learner's node: `actor-<n>.log`, each line with the node it comes from."""

    def __init__(self, directory: str):
        os.makedirs(directory, exist_ok=True)
        self._directory = directory
        self._files: dict[int, LogFile] = {}
        self._began: list[Began] = []

    def began(self, began: Began) -> None:
        """An actor has begun."""
        self._began.append(began)

    def take_began(self) -> list[Began]:
        """Those that have begun since this was last asked."""
        began, self._began = self._began, []
        return began

    def write(self, number: int, line: str) -> None:
        """Appends a line to an actor's log."""
        if number not in self._files:
            file = LogFile(os.path.join(self._directory, f"actor-{number}.log"))
            file.setFormatter(logging.Formatter("%(message)s"))
            self._files[number] = file
        self._files[number].handle(logging.makeLogRecord({"msg": line}))


@dataclasses.dataclass(frozen=True)
class Orders:
    """What every actor of a fleet needs to know."""

    address: str
    badge: Badge
    import_module: str
    """Registers the environment suite."""
    log_level: int


class Player:
    """An actor of ours; Ray starts it again, here or on another node, when its process or its node is gone."""

    def __init__(self, number: int, orders: Orders, scribe: Any):
        """
        Args:
          number: of this actor.
          orders: for all.
          scribe: handle of the `Scribe`.
        """
        self._number = number
        self._orders = orders
        self._scribe = scribe
        self._stopped = False
        self._actor: Actor | None = None
        self._node, address = this_node()
        handler = _ToScribe(scribe, number, f"{address} ({self._node[:8]}) process {os.getpid()}")
        root = logging.getLogger()
        root.addHandler(handler)
        root.setLevel(orders.log_level)

    def run(self) -> None:
        """Acts until `stop`.

        Raises:
          Rejected, CannotBuild, EnvironmentFailed: three times in a row, without 30 s of acting.
          CannotBuild: the environment suite's module isn't installed on this node.
        """
        self._scribe.began.remote(Began(self._number, self._node, time.time()))
        _log.info("looking for a learner at %s", self._orders.address)
        module = self._orders.import_module
        try:
            importlib.import_module(module)
        except ImportError as error:
            raise CannotBuild(
                f"{module} with the environments can't be imported on {this_node()[1]}: {error}"
            ) from error
        security = self._orders.badge.security()
        backoff, failures = Backoff(), 0
        while not self._stopped:
            began = time.monotonic()
            self._actor = Actor(lambda: LearnerClient(self._orders.address, security))
            try:
                self._actor.run()
            except (Rejected, CannotBuild, EnvironmentFailed) as error:
                if time.monotonic() - began > _STABLE_SECONDS:
                    backoff.reset()
                    failures = 0
                failures += 1
                if failures >= _MAX_FAILURES:
                    raise
                delay = backoff.next()
                _log.warning("%s; it starts again in %.1f s", error, delay)
                time.sleep(delay)

    def stop(self) -> None:
        """Makes `run` return soon."""
        self._stopped = True
        if self._actor is not None:
            self._actor.stop()


class _ToScribe(logging.Handler):
    """Sends what is logged to where the learner is."""

    def __init__(self, scribe: Any, number: int, place: str):
        super().__init__()
        self._scribe = scribe
        self._number = number
        self.setFormatter(logging.Formatter(f"%(asctime)s %(levelname).1s [{place}] %(name)s: %(message)s"))
        self.addFilter(lambda record: not record.name.startswith("ray"))  # sending may log

    def emit(self, record: logging.LogRecord) -> None:
        """Doesn't wait."""
        try:
            self._scribe.write.remote(self._number, self.format(record))
        except ray.exceptions.RayError:  # the run is ending
            self.handleError(record)
