"""The actors of a run as Ray actors."""

from __future__ import annotations

import dataclasses
import logging
import math
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from seed_rl.launch.local_actors import ActorFailed
from seed_rl.launch.on_ray.cluster import living_nodes, not_started, this_node
from seed_rl.launch.on_ray.keys import Badge
from seed_rl.launch.on_ray.player import Began, Orders, Player, Scribe
from seed_rl.transport.address import parse_address

_log = logging.getLogger(__name__)

_POLL_SECONDS = 0.5
_PATIENCE_SECONDS = 300.0
_SLOW_SECONDS = 20.0  # until it is said that actors wait: starting one takes a while too
_FRAIL_SECONDS, _FRAIL_STARTS = 60.0, 4
_ANY_ADDRESS = ("0.0.0.0", "::")
FOREVER = {"max_restarts": -1, "max_task_retries": -1}


class RayActors:
    """Keeps as many actors running as the cluster has room for, up to `count`.

    All of them are asked of Ray at once: it places those that fit, spread over the nodes, keeps the others waiting for
    nodes to come, and starts those of a lost node again where there is room.
    """

    def __init__(
        self,
        count: int,
        least: int,
        num_cpus: float,
        badge: Badge,
        import_module: str,
        log_directory: str,
        on_failure: Callable[[], None],
        patience: float = _PATIENCE_SECONDS,
    ):
        """
        Args:
          count: actors at the most.
          least: with fewer than these for `patience` seconds the run ends.
          num_cpus: that Ray sets aside for each.
          badge: what they show to the learner.
          import_module: registers the environment suite.
          log_directory: of this node; the actors' logs go there.
          on_failure: called once `failed` is set.
          patience: seconds.
        """
        self.failed: ActorFailed | None = None
        self._count = count
        self._least = least
        self._num_cpus = num_cpus
        self._badge = badge
        self._import_module = import_module
        self._log_directory = log_directory
        self._on_failure = on_failure
        self._patience = patience
        self._stop = threading.Event()
        self._watcher = threading.Thread(target=self._watch, daemon=True, name="ray-actors")
        self._scribe: Any = None
        self._players: list[Any] = []
        self._runs: dict[Any, int] = {}
        self._places: dict[int, str] = {}
        self._starts: dict[int, list[Began]] = defaultdict(list)
        self._nodes: dict[str, str] = {}
        self._running = -1
        self._changed_at = math.inf

    def start(self, address: str) -> None:
        """Asks Ray for the actors, for the learner at an address of this node."""
        node, ip = this_node()
        here = NodeAffinitySchedulingStrategy(node, soft=False)
        scribe = ray.remote(Scribe).options(num_cpus=0, scheduling_strategy=here, **FOREVER)
        self._scribe = scribe.remote(self._log_directory)
        listening = parse_address(address)
        if listening.host in _ANY_ADDRESS:
            listening = dataclasses.replace(listening, host=ip)
        orders = Orders(str(listening), self._badge, self._import_module, logging.getLogger().level)
        player = ray.remote(Player).options(
            num_cpus=self._num_cpus, scheduling_strategy="SPREAD", max_concurrency=2, **FOREVER
        )
        self._players = [player.remote(number, orders, self._scribe) for number in range(self._count)]
        self._runs = {player.run.remote(): number for number, player in enumerate(self._players)}
        self._watcher.start()

    def stop(self, grace: float = 5.0) -> None:
        """Ends the actors: asks, and after `grace` seconds kills."""
        self._stop.set()
        if self._watcher.ident is None:
            return
        self._watcher.join()
        try:
            for number in self._places:
                self._players[number].stop.remote()
            running = [run for run, number in self._runs.items() if number in self._places]
            if running:
                ray.wait(running, num_returns=len(running), timeout=grace)
            for actor in (*self._players, self._scribe):
                ray.kill(actor)
        except ray.exceptions.RayError as error:
            _log.warning("the cluster can't be asked to end the actors: %s", _sentence(error))

    def _watch(self) -> None:
        ended: list[Any] = []
        try:
            self._look()
            enough_at = time.monotonic()  # the first look waits for the scribe's process
            while not self._stop.wait(_POLL_SECONDS):
                ended, _ = ray.wait(list(self._runs), timeout=0)
                for run in ended:
                    ray.get(run)  # raises what ended it
                self._look()
                if len(self._places) >= self._least:
                    enough_at = time.monotonic()
                elif time.monotonic() - enough_at > self._patience:
                    self._give_up(
                        f"{len(self._places)} actors run and --min_actors asks for {self._least}: the cluster has had "
                        f"no room for them for {self._patience:.0f} s (each takes {self._num_cpus:g} CPUs)"
                    )
        except ray.exceptions.RayTaskError as error:
            number = next(iter(self._runs[run] for run in ended), None)
            self._give_up(f"actor {number} failed: {_sentence(error.cause)}")
        except ray.exceptions.RayError as error:
            why = not_started(error) if isinstance(error, ray.exceptions.RayActorError) else ""
            self._give_up(f"actors can't start: {why}" if why else f"the actors are lost: {_sentence(error)}")

    def _look(self) -> None:
        self._note(ray.get(self._scribe.take_began.remote()))
        self._note_waiting()

    def _note(self, began: list[Began]) -> None:
        """Where actors run by now, as far as it has changed."""
        nodes = living_nodes()
        for node, address in self._nodes.items():
            if node not in nodes:
                lost = sorted(number for number, place in self._places.items() if place == node)
                _log.warning("node %s (%s) is lost, and with it actors %s", address, node[:8], lost or "none")
        for node in nodes.keys() - self._nodes.keys():
            if self._nodes:
                _log.info("node %s (%s) has come", nodes[node], node[:8])
        self._nodes = nodes
        for start in began:
            again = "again " if self._starts[start.number] else ""
            _log.info("actor %d runs %son %s (%s)", start.number, again, nodes.get(start.node, "?"), start.node[:8])
            self._places[start.number] = start.node
            self._starts[start.number].append(start)
            self._check(start)
        self._places = {number: node for number, node in self._places.items() if node in nodes}

    def _note_waiting(self) -> None:
        """Says once after each change, if it lasts, that there are actors without room."""
        running = len(self._places)
        if running != self._running:
            self._running, self._changed_at = running, time.monotonic()
        elif running < self._count and time.monotonic() - self._changed_at > min(_SLOW_SECONDS, self._patience / 2):
            self._changed_at = math.inf
            _log.info("%d of %d actors run; the others wait for %g CPUs each", running, self._count, self._num_cpus)

    def _check(self, last: Began) -> None:
        """Gives up an actor whose process keeps ending, which isn't the fault of its nodes."""
        recent = [
            start
            for start in self._starts[last.number]
            if start.node in self._nodes and last.at - start.at < _FRAIL_SECONDS
        ]
        self._starts[last.number] = recent
        if len(recent) >= _FRAIL_STARTS:
            self._give_up(
                f"the process of actor {last.number} ended {len(recent) - 1} times within {_FRAIL_SECONDS:.0f} s "
                f"(its log: {self._log_directory}/actor-{last.number}.log; `ray logs` has what it printed)"
            )

    def _give_up(self, sentence: str) -> None:
        if self.failed is None:
            self.failed = ActorFailed(sentence)
        self._stop.set()
        self._on_failure()


def _sentence(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
