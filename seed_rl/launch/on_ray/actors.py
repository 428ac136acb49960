"""The actors of a run as Ray actors."""

from __future__ import annotations

import dataclasses
import importlib
import logging
import math
import os
import threading
import time
from collections import defaultdict
from typing import Any, NamedTuple

import ray

from seed_rl.actor.loop import Actor
from seed_rl.envs.base import CannotBuild, EnvironmentFailed
from seed_rl.launch.local_actors import ActorFailed, Retries
from seed_rl.launch.on_ray.cluster import (
    FOREVER,
    Mailbox,
    MailboxHandler,
    actor_here,
    living_nodes,
    not_started,
    this_node,
    wait_for_delivery,
)
from seed_rl.launch.on_ray.credentials import Credentials
from seed_rl.launch.run_directory import LogFile
from seed_rl.transport.address import parse_address
from seed_rl.transport.client import LearnerClient, Rejected

_log = logging.getLogger(__name__)

_POLL_SECONDS = 0.5
_PATIENCE_SECONDS = 300.0
_SLOW_SECONDS = 20.0  # an actor that isn't running by then waits for room
_RESTARTS_SECONDS, _MAX_STARTS = 60.0, 4
_ANY_ADDRESS = ("0.0.0.0", "::")


@dataclasses.dataclass(frozen=True)
class ActorSpec:
    """What a node needs to run an actor."""

    credentials: Credentials
    import_module: str
    """Registers the environment suite."""
    log_level: int
    address: str = ""
    """Of the learner."""


class Started(NamedTuple):
    """An event: an actor has started, perhaps again, on a node."""

    number: int
    node: str
    """Its id."""
    at: float
    """`time.time()` there."""


class RayActor:
    """Runs an actor; Ray starts it again, here or on another node, when its process or node is lost."""

    def __init__(self, number: int, spec: ActorSpec, mailbox: Any):
        self._number = number
        self._spec = spec
        self._mailbox = mailbox
        self._stopped = threading.Event()
        self._actor: Actor | None = None
        self._node, self._ip = this_node()
        handler = MailboxHandler(mailbox, number)
        place = f"{self._ip} ({self._node[:8]}) process {os.getpid()}"
        handler.setFormatter(logging.Formatter(f"%(asctime)s %(levelname).1s [{place}] %(name)s: %(message)s"))
        root = logging.getLogger()
        root.addHandler(handler)
        root.setLevel(spec.log_level)

    def run(self) -> None:
        """Acts until `stop`.

        Raises:
          Rejected, CannotBuild, EnvironmentFailed: three times in a row, without 30 s of acting.
          CannotBuild: the environment suite's module isn't installed on this node.
        """
        self._mailbox.put.remote(Started(self._number, self._node, time.time()))
        try:
            self._act()
        finally:
            wait_for_delivery(self._mailbox)

    def _act(self) -> None:
        _log.info("looking for a learner at %s", self._spec.address)
        try:
            importlib.import_module(self._spec.import_module)
        except ImportError as error:
            raise CannotBuild(
                f"{self._spec.import_module} with the environments can't be imported on {self._ip}: {error}"
            ) from error
        security = self._spec.credentials.client()
        retries = Retries()
        while not self._stopped.is_set():
            started = time.monotonic()
            self._actor = Actor(lambda: LearnerClient(self._spec.address, security))
            try:
                self._actor.run()
            except (Rejected, CannotBuild, EnvironmentFailed) as error:
                delay = retries.next_delay(time.monotonic() - started)
                if delay is None:
                    raise
                _log.warning("%s; it starts again in %.1f s", error, delay)
                self._stopped.wait(delay)

    def stop(self) -> None:
        """Makes `run` return soon."""
        self._stopped.set()
        if self._actor is not None:
            self._actor.stop()


class RayActors:
    """Keeps as many actors running as the cluster has room for, up to `count`.

    All of them are requested from Ray at once: it spreads those that fit over the nodes, keeps the others waiting for
    more nodes, and restarts those of a lost node where there is room.
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
        self._mailbox: Any = None
        self._actors: list[Any] = []
        self._runs: dict[Any, int] = {}
        self._logs: dict[int, LogFile] = {}
        self._nodes: dict[str, str] = {}
        self._node_of: dict[int, str] = {}  # of the actors that run
        self._starts: dict[int, list[Started]] = defaultdict(list)
        self._running = -1
        self._changed_at = math.inf

    def start(self, address: str) -> None:
        """Requests the actors from Ray, for the learner at an address of this node."""
        os.makedirs(self._log_directory, exist_ok=True)
        self._mailbox = actor_here(Mailbox)
        listening = parse_address(address)
        if listening.host in _ANY_ADDRESS:
            listening = dataclasses.replace(listening, host=this_node()[1])
        spec = dataclasses.replace(self._spec, address=str(listening))
        kind = ray.remote(RayActor).options(
            num_cpus=self._num_cpus, scheduling_strategy="SPREAD", max_concurrency=2, **FOREVER
        )
        self._actors = [kind.remote(number, spec, self._mailbox) for number in range(self._count)]
        self._runs = {actor.run.remote(): number for number, actor in enumerate(self._actors)}
        self._watcher.start()

    def stop(self, grace: float = 5.0) -> None:
        """Ends the actors: asks them to, and kills those that are left after `grace` seconds."""
        self._stop.set()
        if self._watcher.ident is None:
            return
        self._watcher.join()
        try:
            for number in self._node_of:
                self._actors[number].stop.remote()
            running = [run for run, number in self._runs.items() if number in self._node_of]
            if running:
                ray.wait(running, num_returns=len(running), timeout=grace)
            self._take_events()
            for actor in (*self._actors, self._mailbox):
                ray.kill(actor)
        except ray.exceptions.RayError as error:
            _log.warning("the cluster can't be asked to end the actors: %s", _first_line(error))
        for log in self._logs.values():
            log.close()

    def _watch(self) -> None:
        ended: list[Any] = []
        try:
            self._take_events()
            enough_at = time.monotonic()  # the first events wait for the mailbox's process
            while not self._stop.wait(_POLL_SECONDS):
                ended, _ = ray.wait(list(self._runs), timeout=0)
                for run in ended:
                    ray.get(run)  # raises what ended it
                self._take_events()
                self._log_waiting()
                if len(self._node_of) >= self._least:
                    enough_at = time.monotonic()
                elif time.monotonic() - enough_at > self._patience:
                    self._give_up(
                        f"{len(self._node_of)} actors run and --min_actors asks for {self._least}: the cluster has had "
                        f"no room for them for {self._patience:.0f} s (each takes {self._num_cpus:g} CPUs)"
                    )
        except ray.exceptions.RayTaskError as error:
            number = next(iter(self._runs[run] for run in ended), None)
            self._give_up(f"actor {number} failed: {_first_line(error.cause)}")
        except ray.exceptions.RayError as error:
            why = not_started(error) if isinstance(error, ray.exceptions.RayActorError) else ""
            self._give_up(f"actors can't start: {why}" if why else f"the actors are lost: {_first_line(error)}")

    def _take_events(self) -> None:
        events = ray.get(self._mailbox.take.remote())
        self._compare_nodes(living_nodes())
        for event in events:
            if isinstance(event, Started):
                self._note_start(event)
            else:
                self._log_of(event.sender).handle(event)
        self._node_of = {number: node for number, node in self._node_of.items() if node in self._nodes}

    def _log_of(self, number: int) -> LogFile:
        if number not in self._logs:
            self._logs[number] = LogFile(os.path.join(self._log_directory, f"actor-{number}.log"), "%(message)s")
        return self._logs[number]

    def _compare_nodes(self, nodes: dict[str, str]) -> None:
        for node in self._nodes.keys() - nodes.keys():
            lost = sorted(number for number, place in self._node_of.items() if place == node)
            _log.warning("node %s (%s) is lost, and with it actors %s", self._nodes[node], node[:8], lost or "none")
        for node in nodes.keys() - self._nodes.keys() if self._nodes else ():
            _log.info("node %s (%s) has joined", nodes[node], node[:8])
        self._nodes = nodes

    def _note_start(self, start: Started) -> None:
        """Logs it, and gives up an actor whose process keeps ending on nodes that are still there."""
        number, node, at = start
        again = "again " if self._starts[number] else ""
        _log.info("actor %d runs %son %s (%s)", number, again, self._nodes.get(node, "?"), node[:8])
        self._node_of[number] = node
        starts = [*self._starts[number], start]
        self._starts[number] = [s for s in starts if s.node in self._nodes and at - s.at < _RESTARTS_SECONDS]
        if len(self._starts[number]) >= _MAX_STARTS:
            self._give_up(
                f"the process of actor {number} ended {_MAX_STARTS - 1} times within {_RESTARTS_SECONDS:.0f} s "
                f"(its log: {self._log_directory}/actor-{number}.log; `ray logs` has its output)"
            )

    def _log_waiting(self) -> None:
        """Logs once after each change, if it lasts, that actors have no room."""
        running = len(self._node_of)
        if running != self._running:
            self._running, self._changed_at = running, time.monotonic()
        elif running < self._count and time.monotonic() - self._changed_at > min(_SLOW_SECONDS, self._patience / 2):
            self._changed_at = math.inf
            _log.info("%d of %d actors run; the others wait for %g CPUs each", running, self._count, self._num_cpus)

    def _give_up(self, sentence: str) -> None:
        self.failed = self.failed or ActorFailed(sentence)
        self._stop.set()


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
