"""A policy server: the service of a learner that doesn't learn, with the weights of a run's checkpoints."""

import dataclasses
import logging
import math
import threading
import time
from collections.abc import Generator

from seed_rl.evaluation.policy import assign, experiment_of, restore_agent
from seed_rl.experiment.sizes import Sizes
from seed_rl.inference.acting import Acting
from seed_rl.inference.membership import Membership
from seed_rl.inference.service import CentralInference
from seed_rl.learner.actor_server import server_of
from seed_rl.reporting.metrics import RECENT_EPISODES, EpisodeWindow
from seed_rl.system.files import allow_many_files
from seed_rl.system.signals import Stop
from seed_rl.transport.credentials import ServerSecurity
from seed_rl.weights import checkpoints

_log = logging.getLogger(__name__)

_POLL_SECONDS = 0.1
_PERIODS = {None: math.inf, "newest": math.inf, "best": 300.0}
"""Names that are followed, and the seconds after which a file of an unchanged name is read again."""


class PolicyServer:
    """Central inference with a run's policy, which keeps recurrent states for each environment of its clients."""

    def __init__(self, logdir: str, checkpoint: str | None, greedy: bool = False, seed: int = 1, max_envs: int = 1024):
        """Load a checkpoint of a run, chosen and failing as in `load_policy`; the run may still be training.

        `best` and the newest are taken up again when training replaces them. From `seed` follow sampled actions and the
        seeds that clients get for their environments, of which `max_envs` may be connected.
        """
        self._logdir, self._name = logdir, checkpoint
        experiment = experiment_of(logdir)
        everyone = dataclasses.replace(experiment.actors, eval_options="{}")
        self._experiment = experiment = dataclasses.replace(experiment, actors=everyone)
        self._agent, self.checkpoint, self.env_frames = restore_agent(experiment, logdir, checkpoint)
        self._version, self._problem = self._version_of(self.checkpoint), ""
        actors, inference = experiment.actors, experiment.inference
        sizes = Sizes.of_policy(max_envs, inference.max_batch_size, greedy or actors.greedy_evaluation)
        self.acting = Acting(self._agent, sizes, inference, seed)
        self._between_batches = threading.Lock()
        self.acting.thread.turn = lambda requests: self._between_batches
        membership = Membership(max_envs, seed, inference.lease_timeout_s)
        self.service = CentralInference(self._agent.env_spec, membership, [self.acting.thread])
        self._episodes = EpisodeWindow(RECENT_EPISODES)

    def serve(self, address: str, security: ServerSecurity, stop: Stop) -> Generator[dict[str, float], None, None]:
        """Act for clients until `stop` is set or the caller leaves; for address and security see `ActorServer`.

        Every `Logs.metrics_interval_s` seconds newer weights are looked for, and taken up between two batches. Yields
        rows of numbers, if they have changed; the first as soon as clients get actions.
        """
        allow_many_files()
        interval_s = self._experiment.logs.metrics_interval_s
        server = server_of(self._experiment, address, security, self._agent.env_spec)
        server.service = self.service
        _log.info("serving %s at %s", self.checkpoint, server.start())
        try:
            self.acting.act_step.warm_up()
            self.service.start()
            row: dict[str, float] = {}
            began, steps, rate = time.monotonic(), 0, 0.0
            while not stop.is_set():
                if row != (row := self._row(rate)):
                    yield row
                while (seconds := time.monotonic() - began) < interval_s and not stop.is_set():
                    time.sleep(_POLL_SECONDS)
                    self.service.raise_failure()
                if self._name in _PERIODS:
                    self._refresh()
                began, total = began + seconds, self.service.stats.agent_steps
                rate, steps = (total - steps) / seconds, total
        finally:
            self.service.stop()  # first: it answers on the server's streams
            server.stop(grace=0.5)

    def _row(self, rate: float) -> dict[str, float]:
        for ended in self.service.take_episodes():
            self._episodes.add(ended.returns, ended.lengths)
        return {
            "actors": self.service.membership.actors,
            "environments": self.service.membership.leased,
            "steps_per_second": rate,
            "episodes": self._episodes.count,
            **self._episodes.means(),
            "env_frames": self.env_frames,
        }

    def _version_of(self, path: str) -> tuple[str, float]:
        """Return what changes when a checkpoint is worth reading."""
        return path, time.monotonic() // _PERIODS.get(self._name, math.inf)

    def _refresh(self) -> None:
        """Take up a newer checkpoint; if it can't be used, log why, once, and keep the weights."""
        try:
            version = self._version_of(checkpoints.find(self._logdir, self._name))
            if version == self._version:
                return
            self._version = version  # also if it is damaged
            path, arrays, state = checkpoints.chosen(self._logdir, self._name)
            with self._between_batches:
                self.env_frames = assign(self._agent, path, arrays, state)
            self.checkpoint, self._problem = path, ""
        except checkpoints.CheckpointError as error:
            if str(error) != self._problem:
                _log.warning("%s; the weights of %s stay in use", error, self.checkpoint)
            self._problem = str(error)
