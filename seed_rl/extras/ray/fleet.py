"""A fleet of Ray actors, which adapts to the nodes of the cluster."""

import concurrent.futures
import dataclasses
import importlib
import logging
import logging.handlers
import math
import os
import queue
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import ray

from seed_rl.actor.loop import Actor
from seed_rl.actor.watch import end_process
from seed_rl.envs.base import CannotBuild
from seed_rl.extras.ray.cluster import PATIENCE_SECONDS, SLOW_SECONDS, why_it_cannot_start
from seed_rl.runs.fleet import ActorEnd, ActorFailed, Endings, Fleet
from seed_rl.runs.run_directory import PrintableFormatter
from seed_rl.system.files import Outage, explaining, reason
from seed_rl.transport.address import parse_address
from seed_rl.transport.client import LearnerClient
from seed_rl.transport.credentials import ClientSecurity

_log = logging.getLogger(__name__)

_POLL_SECONDS = 0.5
_GRACE_SECONDS = 5.0
# Calls wait until a lost actor is back; each call disables Ray's own retries.
_RESTARTED = {"max_restarts": -1, "max_task_retries": -1, "scheduling_strategy": "SPREAD", "max_concurrency": 2}


class RayActor:
    """An actor running on a node of the cluster."""

    _actor: Actor

    def run(
        self,
        address: str,
        security: ClientSecurity,
        modules: tuple[str, ...],
        directory: str,
        log_level: int,
        hang_timeout: float,
    ) -> Iterator[str]:
        """Act until `stop`; yield a description of this process, then lines of its log.

        Credentials are passed here because Ray stores the arguments of constructors. The `modules` of the environments
        are looked for in the learner's working `directory` last; a missing one is CannotBuild. Else see `Actor.run`.
        """
        self._actor = Actor(lambda: LearnerClient(address, security), hang_timeout=hang_timeout, on_hang=self._end)
        sys.path.append(directory)
        node = ray.get_runtime_context().get_node_id()
        here = f"{ray.util.get_node_ip_address()} ({node[:8]}) process {os.getpid()}"
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
        here = ray.util.get_node_ip_address()
        for module in modules:
            with explaining(CannotBuild, f"{module} can't be imported on {here}", ImportError):
                importlib.import_module(module)
        self._actor.run()

    def _end(self, sentence: str) -> None:
        """End this process, which Ray starts again, after a time in which the lines of its log are sent."""
        time.sleep(2 * _POLL_SECONDS)
        end_process()

    def stop(self) -> None:
        """Make `run` return soon, once it has yielded something."""
        self._actor.stop()


@dataclasses.dataclass(eq=False)
class _Member:
    """An actor of the fleet as seen by the learner's process."""

    endings: Endings
    handle: Any
    began: float | None = None  # start time; None while the actor waits for resources


@dataclasses.dataclass(eq=False)
class RayActors(Fleet):
    """Keeps as many actors running as the cluster has resources for, up to `count`.

    All actors are requested from Ray at once. Ray spreads those that fit over the nodes, keeps the others waiting for
    more nodes, and restarts actors whose process or node is lost. One thread listens to all of them.
    """

    count: int
    log_directory: str  # directory of their logs, `actor-<n>.log`
    least: int  # minimum number of actors: the run ends after five minutes with fewer
    num_cpus: float  # CPUs that Ray reserves per actor
    security: ClientSecurity
    modules: tuple[str, ...]  # module that registers the environment suite, and modules that the environments need
    hang_timeout: float = 60.0  # seconds after which a step hangs

    def __post_init__(self) -> None:
        self._address = ""
        self._members: dict[Any, _Member] = {}  # by the actor's stream of log lines
        self._running, self._changed_at, self._enough_at = 0, 0.0, 0.0
        self._outage = Outage("logs of actors", "the lines are lost", _log)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True, name="ray-actors")

    def start(self, address: str) -> None:
        """Request the actors from Ray, for the learner at an address of this node."""
        os.makedirs(self.log_directory, exist_ok=True)
        listening = parse_address(address)
        if listening.is_everywhere:
            listening = dataclasses.replace(listening, host=ray.util.get_node_ip_address())
        self._address = str(listening)
        self._thread.start()

    def stop(self) -> None:
        """Stop the actors: waiting ones at once, running ones when they have closed their environments."""
        self._stopping.set()
        if self._thread.ident is not None:  # the thread was started
            self._thread.join(2 * _GRACE_SECONDS)

    def _watch(self) -> None:
        try:
            self._keep()
        except Exception as error:  # Ray raises many kinds, and nothing else watches the actors
            _log.debug("watching the actors failed", exc_info=error)
            self._give_up(f"the connection to the Ray cluster failed: {reason(error)}")

    def _keep(self) -> None:
        kind: Any = ray.remote(num_cpus=self.num_cpus, **_RESTARTED)(RayActor)
        members = []
        for name in (f"actor-{number}" for number in range(self.count)):
            log = os.path.join(self.log_directory, f"{name}.log")
            members.append(_Member(Endings(name, log), kind.options(name=name).remote()))
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
        call = member.handle.run.options(num_returns="streaming", max_task_retries=0)
        level = logging.getLogger().level
        stream = call.remote(self._address, self.security, self.modules, os.getcwd(), level, self.hang_timeout)
        self._members[stream] = member

    def _listen(self) -> None:
        """Wait up to half a second and take one message from each actor that has sent something."""
        streams = list(self._members)
        for stream in ray.wait(streams, num_returns=len(streams), timeout=_POLL_SECONDS)[0]:
            member = self._members[stream]
            try:
                text = ray.get(next(stream))
            except (StopIteration, ray.exceptions.RayError) as error:
                del self._members[stream]
                began, member.began = member.began, None
                if not self._stopping.is_set() and not isinstance(error, StopIteration):  # its end with the run
                    self._ended(member, began, error)
                continue
            if member.began:
                with self._outage.tolerating(), open(member.endings.log, "a", encoding="utf-8") as file:
                    file.write(text)
            else:
                member.began = time.monotonic()
                _log.info("%s runs on %s", member.endings.name, text)

    def _ended(self, member: _Member, began: float | None, error: Exception) -> None:
        """Give up, or restart the actor in a new process."""
        if isinstance(error, ray.exceptions.ActorDiedError):  # permanently
            return self._give_up(f"actors can't start: {why_it_cannot_start(error)}")
        end = ActorEnd("its process or node was lost", killed=True)
        if isinstance(error, ray.exceptions.RayTaskError):
            useless = isinstance(error, CannotBuild)  # whose sentence may be long
            end = ActorEnd(str(error.cause) if useless else reason(error.cause), useless=useless)
        try:
            member.endings.add(end, 0.0 if began is None else time.monotonic() - began)
        except ActorFailed as failed:
            return self._give_up(str(failed))
        if not end.killed:
            ray.kill(member.handle, no_restart=False)
        _log.warning("%s ended: %s; Ray restarts it (log: %s)", member.endings.name, end.how, member.endings.log)
        return self._call(member)

    def _look_for_room(self) -> None:
        """Give up after too long with fewer than `least` actors; log how many wait for resources."""
        now, running = time.monotonic(), sum(member.began is not None for member in self._members.values())
        if running != self._running:
            self._running, self._changed_at = running, now
        elif running < self.count and now - self._changed_at > SLOW_SECONDS:
            self._changed_at = math.inf  # log once per change
            sentence = "%d of %d actors are running; the others are waiting for %g CPUs each"
            _log.info(sentence, running, self.count, self.num_cpus)
        if running >= self.least:
            self._enough_at = now
        elif now - self._enough_at > PATIENCE_SECONDS:
            what = f"only {running} actors have been running for {PATIENCE_SECONDS:.0f} s, and --min_actors requires"
            lacks = f"the cluster lacks resources (each actor takes {self.num_cpus:g} CPUs)"
            self._give_up(f"{what} {self.least}: {lacks}")

    def _give_up(self, why: str) -> None:
        """End the run, quoting the first failure because the others usually have the same reason."""
        self.failed = self.failed or ActorFailed(why)
        self._stopping.set()
