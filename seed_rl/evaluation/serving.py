"""A policy server: the service of a learner that doesn't learn, with the weights of a run's checkpoints."""

from __future__ import annotations

import logging
import math
import os
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from typing import NamedTuple

from seed_rl.buffers.slots import UnrollQueue
from seed_rl.evaluation.policy import assign, experiment_of, restored
from seed_rl.experiment.sizes import Sizes
from seed_rl.inference.acting import Acting
from seed_rl.inference.order import Order
from seed_rl.inference.service import CentralInference
from seed_rl.learner import checkpoints
from seed_rl.learner.assembly import server_of
from seed_rl.learner.checkpoints import CheckpointError
from seed_rl.learner.ending import Stop
from seed_rl.reporting.metrics import RECENT_EPISODES, EpisodeWindow
from seed_rl.specs import ActorSettings, GroupLease
from seed_rl.system.object_store import CannotReach, version_of
from seed_rl.transport.credentials import ServerSecurity

_log = logging.getLogger(__name__)

_POLL_SECONDS = 0.1
_WATCHED = (None, "newest", "best")
"""Names of checkpoints that training replaces."""


class Served(NamedTuple):
    """What a policy server did in an interval."""

    clients: int
    environments: int
    steps_per_second: float
    episodes: int
    """Total number of episodes that have ended."""
    episode_return: float
    """Mean return of the last 100 of them; NaN before the first."""
    checkpoint: str
    """Path of the checkpoint in use."""
    env_frames: int
    """Environment frames that it was trained on."""

    def text(self) -> str:
        """Format as a line."""
        connected = f"{self.environments} environments of {self.clients} client{'s' * (self.clients != 1)}"
        mean = f", return {self.episode_return:.2f} after {self.episodes:,} episodes" if self.episodes else ""
        weights = f"{os.path.basename(self.checkpoint)} ({self.env_frames:,} frames)"
        return f"{connected}, {self.steps_per_second:,.0f} steps/s{mean}, {weights}"


class PolicyServer:
    """Acts for clients with a run's policy, whose recurrent states it keeps for each of their environments.

    server = PolicyServer(logdir, "localhost:8686", ServerSecurity())
    server.listen()                     # clients may come
    for served in server.serve(stop):   # compiles, then acts
        print(served)
    server.close()
    """

    def __init__(
        self,
        logdir: str,
        address: str,
        security: ServerSecurity,
        checkpoint: str | None = None,
        *,
        greedy: bool = False,
        seed: int = 1,
        max_envs: int = 1024,
    ):
        """
        Args:
          logdir: log directory of the run, which may still be training.
          address: `host:port` or `unix:/path`.
          security: credentials of the server.
          checkpoint: as of `load_policy`; `best` and the newest are watched, and replaced when training does.
          greedy: whether to act without exploration; otherwise the policy acts as in the run's evaluation environments.
          seed: seed of sampled actions and of the seeds that clients get for their environments.
          max_envs: number of environments that may be connected.

        Raises:
          NoPolicy, CannotBuild, CannotReach: as `load_policy`.
          AddressError, SecurityError: as `ActorServer`.
        """
        experiment = experiment_of(logdir)
        self._logdir, self._name, self._order = logdir, checkpoint, _BetweenBatches()
        self._agent, self.checkpoint, self.env_frames = restored(experiment, logdir, checkpoint)
        self._seen, self._problem = "", ""
        actors, inference, env_spec = experiment.actors, experiment.inference, self._agent.env_spec
        greedy = greedy or actors.greedy_evaluation
        sizes = Sizes.of_policy(max_envs, min(inference.max_batch_size, max_envs), greedy)
        self._acting = Acting(self._agent, sizes, inference, seed, order=self._order)
        settings = ActorSettings(experiment.env.describe(), actors.groups_per_actor, actors.envs_per_group, env_spec)
        membership = self._order.membership(max_envs, seed, inference.lease_timeout_s, 1)
        self._service = CentralInference(settings, env_spec, membership, [self._acting.thread], self._order)
        self._server = server_of(self._service, env_spec, inference, address, security)
        self._episodes = EpisodeWindow(RECENT_EPISODES)

    def listen(self) -> str:
        """Start to serve clients and return the address. They get their first actions once `serve` has compiled.

        Raises:
          AddressError: the address can't be listened on.
        """
        return self._server.start()

    def serve(self, stop: Stop, interval_s: float = 10.0) -> Iterator[Served]:
        """Act until `stop` is set.

        Args:
          stop: event that ends serving.
          interval_s: seconds between results, before each of which newer weights are looked for.

        Yields:
          What was done since the last result; the first one comes as soon as clients get actions.

        Raises:
          RuntimeError: inference failed.
        """
        self._acting.act_step.warm_up()
        self._service.start()
        yield self._served(0.0)
        began, steps = time.monotonic(), 0
        while not stop.is_set():
            time.sleep(min(_POLL_SECONDS, interval_s))
            self._service.raise_failure()
            if (seconds := time.monotonic() - began) < interval_s:
                continue
            self._refresh()
            total = self._service.stats.agent_steps
            yield self._served((total - steps) / seconds)
            began, steps = began + seconds, total

    def close(self) -> None:
        """Stop acting and serving, after `listen`; clients may come back to another server."""
        self._service.stop()  # first: it answers on the server's streams
        self._server.stop(grace=0.5)

    def _served(self, steps_per_second: float) -> Served:
        for ended in self._service.take_episodes():
            self._episodes.add(ended.returns, ended.lengths)
        mean, count = self._episodes.means().get("episode_return", math.nan), self._episodes.count
        clients, envs = self._service.actors, self._service.leased_envs
        return Served(clients, envs, steps_per_second, count, mean, self.checkpoint, self.env_frames)

    def _refresh(self) -> None:
        """Take up a newer checkpoint; one that can't be used is logged, and the weights stay."""
        if self._name not in _WATCHED:
            return
        try:
            path = checkpoints.find(self._logdir, self._name)
            if (seen := f"{path} {version_of(path)}") == self._seen:
                return
            arrays, state = checkpoints.load(path)
            self._seen = seen
            with self._order.refreshing():
                self.env_frames = assign(self._agent, path, arrays, state)
            self.checkpoint, self._problem = path, ""
        except (CannotReach, CheckpointError, OSError) as error:
            if str(error) != self._problem:
                _log.warning("%s; the weights of %s stay in use", error, os.path.basename(self.checkpoint))
            self._problem = str(error)


class _BetweenBatches(Order):
    """Weights change between batches only."""

    def __init__(self) -> None:
        self._lock = threading.Lock()

    def acting(self, device: int, groups: Sequence[GroupLease], queue: UnrollQueue) -> AbstractContextManager[object]:
        """See `Order.acting`."""
        return self._lock

    def refreshing(self) -> AbstractContextManager[object]:
        """See `Order.refreshing`."""
        return self._lock
