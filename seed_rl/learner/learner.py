"""The learner process: assembles store, inference and server around an agent, and runs the one training loop."""

from __future__ import annotations

import dataclasses
import logging
import os
import time
from collections.abc import Generator
from typing import Any

import numpy as np

from seed_rl.experiment import Experiment
from seed_rl.files import Outage, reason
from seed_rl.inference.episodes import Episodes
from seed_rl.learner.assembly import assemble
from seed_rl.learner.checkpoints import CheckpointError, Checkpoints, assign, name_variables
from seed_rl.learner.counters import Counters
from seed_rl.learner.diverged import Diverged
from seed_rl.learner.hosts.link import NO_OTHERS, Link
from seed_rl.learner.replay_copies import ReplayCopies
from seed_rl.learner.replicas import Replicas, abort_collectives
from seed_rl.learner.sources import Batch
from seed_rl.learner.stop import Stop
from seed_rl.learner.train_step import TrainStep
from seed_rl.reporting.metrics import RECENT_EPISODES, RECENT_EVAL_EPISODES, EpisodeWindow
from seed_rl.reporting.run_log import RunLog, RunState
from seed_rl.reporting.sinks import sinks_of
from seed_rl.reporting.wandb_run import check_wandb
from seed_rl.transport.credentials import ServerSecurity
from seed_rl.transport.server import ActorServer

_log = logging.getLogger(__name__)

_POLL_SECONDS = 0.2  # how soon the loop notices that it is to stop while no batch arrives


class Learner:
    """Trains an experiment's agent on what actors bring, from the newest checkpoint in the log directory if it has one.

    learner = Learner(experiment, logdir, address, security)
    learner.listen()      # actors may come
    for row in learner.train(stop):   # compiles, then acts and trains
        print(row["env_frames"])
    learner.close()
    """

    def __init__(
        self,
        experiment: Experiment,
        logdir: str,
        address: str,
        security: ServerSecurity,
        link: Link = NO_OTHERS,
    ):
        """
        Args:
          experiment: what to train.
          logdir: directory of checkpoints and metrics.
          address: where actors are served, `host:port` or `unix:/path`.
          security: of the server.
          link: to other hosts that train the same model.

        Raises:
          BadDevices: those that are asked for aren't there, or don't fit the batch.
          CannotAct: the agent can't act in these environments.
          CannotBuild: they can't be built here to see what they are like.
          CheckpointError: the log directory's newest checkpoint can't be continued from.
          ConfigError: the run is to be in Weights & Biases, which can't be used here; or hosts differ in their
            environments or devices.
          HostLost: another host is gone.
          DoesNotFit: the replay needs more memory than there is.
        """
        check_wandb(experiment.logs)
        self.counters = Counters()
        self.episodes = EpisodeWindow(RECENT_EPISODES)
        self.eval_episodes = EpisodeWindow(RECENT_EVAL_EPISODES)
        self._experiment = experiment
        self._logdir = logdir
        self._link = link
        self._checkpoints = Checkpoints(os.path.join(logdir, "checkpoints"), experiment.logs.checkpoints_kept)
        self._no_checkpoints = Outage("checkpoints", "training goes on and tries again", _log)
        self._replay_copies = ReplayCopies(self._checkpoints.directory)

        env_spec = experiment.env_spec()
        link.compare({"what the environments are like": repr(env_spec)})  # shapes depend on it
        replicas = self._replicas = Replicas(experiment, link.hosts)
        link.watch(abort_collectives)
        link.compare({"what trains": list(replicas.split.training)})
        with replicas.scope(), replicas.losing_hosts():
            self._agent = experiment.build_agent()
            self._train_step = TrainStep(self._agent, experiment.optimizer, replicas.strategy, replicas.local_count)
        self._variables = {
            **name_variables("agent", self._agent.variables),
            **name_variables("optimizer", self._train_step.optimizer.variables),
        }

        self.restored_from = self._restore() if replicas.is_first else None
        """Path of the checkpoint that the run continues from; None for a new run, and on all hosts but the first."""
        self._take_over_from_first()

        # A resumed run is not to play the episodes again that the run began with, nor to draw the same actions, nor is
        # a host to play what another does.
        entropy = [experiment.seed, self.counters.learner_updates, *([link.hosts.index] if link.hosts.index else [])]
        seed = int(np.random.SeedSequence(entropy).generate_state(1)[0] >> 1)
        acting_agents, self._refresh = replicas.acting_agents(self._agent, experiment.build_agent)
        self._service, self._acting, self._source = assemble(
            dataclasses.replace(experiment, batch_size=replicas.batch_size),
            acting_agents,
            env_spec,
            seed,
            self._add_episodes,
            replicas,
        )
        self._refresh_weights()
        for acting in self._acting:
            store = acting.store
            _log.info("unroll store: %d unrolls, %.2f GB", store.num_slots, store.nbytes / 1e9)
        if experiment.actors.num_eval_envs:
            training, evaluating = experiment.actors.num_training_envs, experiment.actors.num_eval_envs
            _log.info("environments: %d to learn from (ids 0..%d), %d to evaluate", training, training - 1, evaluating)
        self._replay_copies.remove_others(self.counters.learner_updates)
        if self.restored_from and self._source.snapshot is not None:
            self._replay_copies.restore(self._source.snapshot, self.counters.learner_updates)
        self._counted = self._source.taken
        self._server = ActorServer(address, self._service, security=security)

    def _restore(self) -> str | None:
        latest = self._checkpoints.load_latest()
        if latest is None:
            return None
        path, arrays, counters = latest
        assign(self._variables, arrays, path)
        try:
            self.episodes.set_state(counters.pop("episodes"))
            self.eval_episodes.set_state(counters.pop("eval_episodes"))
            self.counters = Counters(**counters)
        except (KeyError, TypeError) as error:
            raise CheckpointError(f"{path} is of another version of seed_rl: {error}") from error
        return path

    def _take_over_from_first(self) -> None:
        """Weights, optimizer and counters of the first host, which has the checkpoint, if there are several."""
        if self._link.hosts.count == 1:
            return
        values = [np.asarray(variable.numpy()) for variable in self._variables.values()]
        counters, *values = self._replicas.from_first([self.counters.to_array(), *values])
        for variable, value in zip(self._variables.values(), values, strict=True):
            variable.assign(value)
        self.counters = Counters.from_array(counters)
        self._link.wait()  # a host that ends when all are here has left none waiting for its values

    @property
    def finished(self) -> bool:
        """Whether all of the run's frames are done."""
        return self.counters.env_frames >= self._experiment.total_frames

    def listen(self) -> str:
        """Serves actors from now on; returns the address. They get their first actions when `train` has compiled.

        Raises:
          AddressError: the address can't be listened on.
        """
        return self._server.start()

    def train(self, stop: Stop) -> Generator[dict[str, float], None, None]:
        """Trains until the run's frames are done, `stop` is set, or the caller leaves; then saves a last checkpoint.

        Yields:
          Each row of metrics.

        Raises:
          Diverged: the loss is not finite any more.
          HostLost: another host is gone.
          CheckpointError: the last checkpoint could not be written.
          RuntimeError: inference failed.
        """
        for acting in self._acting:
            acting.act_step.warm_up()
        self._service.start()
        logs = self._experiment.logs
        resume_frames = self.counters.env_frames if self.counters.learner_updates or self.restored_from else None
        sinks = sinks_of(self._experiment, self._logdir, resume_frames, with_wandb=self._replicas.is_first)
        log = RunLog(self._run_state, sinks, logs.metrics_interval_s)
        began, seconds_before = time.monotonic(), self.counters.seconds
        save_at = began + logs.checkpoint_interval_s
        left: BaseException | None = None
        batch = None
        try:
            try:
                while True:
                    leaving = stop.is_set() or self.finished
                    with log.waiting():
                        if batch is None and not leaving:
                            batch = self._source.next(_POLL_SECONDS)
                        self._raise_failure()
                        agreed = self._link.agree(
                            leave=leaving, ready=batch is not None, env_frames=self._frames_taken()
                        )
                    if agreed.leave:
                        break
                    if batch is None or agreed.update:  # a batch that other hosts are not ready for is not used yet
                        self._count_taken()
                    if batch is not None and agreed.update:
                        metrics = self._update(batch, agreed.env_frames)
                        log.add_update({**metrics, "queue_fill": self._queue_fill()})
                        batch = None
                    self.counters.seconds = seconds_before + time.monotonic() - began
                    row = log.row_if_due()
                    if row is not None:
                        yield row
                    if time.monotonic() >= save_at:
                        with self._no_checkpoints.tolerated():
                            self.save()
                        save_at = time.monotonic() + logs.checkpoint_interval_s
            except (GeneratorExit, KeyboardInterrupt) as leaving:  # what was learned is kept
                left = leaving
                self._link.agree(leave=True, ready=False, env_frames=self._frames_taken())
            self._save_last()
        finally:
            last = log.close()
        if isinstance(left, KeyboardInterrupt):
            raise left
        if last is not None and left is None:
            yield last

    def _raise_failure(self) -> None:
        failure = self._service.failure
        if failure is not None:
            raise RuntimeError(f"inference failed: {failure}") from failure

    def _all_counters(self) -> dict[str, Any]:
        """The run's counters, with those that inference keeps of this start of it."""
        counters = dataclasses.asdict(self.counters)
        for acting in self._acting:
            counters["discarded_unrolls"] += acting.cursor.discarded_unrolls
            counters["unrecorded_steps"] += acting.cursor.unrecorded_steps
        return counters

    def _save_last(self) -> None:
        try:
            self.save()
        except OSError as error:
            written = self._checkpoints.paths()
            newest = f"{written[-1]} is the newest there is" if written else "there is none"
            raise CheckpointError(f"the last checkpoint can't be written ({reason(error)}); {newest}") from error

    def _update(self, batch: Batch, env_frames: int) -> dict[str, float]:
        """An update from this host's part of a batch; `env_frames` is how far the run is with it."""
        counters = self.counters
        progress = env_frames / self._experiment.total_frames
        with self._replicas.scope(), self._replicas.losing_hosts():
            unroll = self._replicas.joined(batch.parts)
            metrics, priorities = self._train_step(unroll, progress, batch.importance_weights)
        if not np.isfinite(metrics["gradient_norm"]):
            raise Diverged(f"the gradient is not finite at update {counters.learner_updates}")
        metrics["policy_lag"] = float(np.mean(counters.learner_updates - batch.versions))
        self._source.write_back(priorities)
        counters.learner_updates += 1
        self._agent.after_update(counters.learner_updates)
        self._refresh_weights()
        return metrics

    def _refresh_weights(self) -> None:
        """Lets the newest weights act."""
        updates = self.counters.learner_updates
        for acting in self._acting:
            acting.cursor.newest_version = updates
        self._refresh()
        for acting in self._acting:
            acting.cursor.version = updates

    def _queue_fill(self) -> float:
        return float(np.mean([len(acting.queue) / acting.queue.capacity for acting in self._acting]))

    def _uncounted_steps(self) -> int:
        """Agent steps in the unrolls taken by the source since the last count, and in as many of each other host."""
        return (self._source.taken - self._counted) * self._agent.unroll_length * self._link.hosts.count

    def _frames_taken(self) -> int:
        return self.counters.env_frames + self._uncounted_steps() * self._experiment.env.action_repeat

    def _count_taken(self) -> None:
        """Counts the unrolls taken by the source since the last call: each once, however often it is replayed."""
        steps = self._uncounted_steps()
        self._counted = self._source.taken
        self.counters.agent_steps += steps
        self.counters.env_frames += steps * self._experiment.env.action_repeat

    def _run_state(self) -> RunState:
        return RunState(
            counters=self._all_counters(),
            gauges={
                **self.episodes.means(),
                "episodes": self.episodes.count,
                **{f"eval/{name}": mean for name, mean in self.eval_episodes.means().items()},
                **self._source.gauges(),
                "actors": self._service.actors,
                "environments": self._service.leased_envs,
            },
            inference=dataclasses.asdict(self._service.stats),
        )

    def save(self) -> None:
        """Writes a checkpoint, if this is the host that does.

        Raises:
          OSError: it could not be written; older ones are untouched.
        """
        if not self._replicas.is_first:
            return
        arrays = {name: np.asarray(variable.numpy()) for name, variable in self._variables.items()}
        counters = {
            **self._all_counters(),
            "episodes": self.episodes.get_state(),
            "eval_episodes": self.eval_episodes.get_state(),
        }
        if self._source.snapshot is not None:  # before the checkpoint that it belongs to
            self._replay_copies.save(self._source.snapshot, self.counters.learner_updates)
        self._checkpoints.save(self.counters.learner_updates, arrays, counters)
        self._replay_copies.remove_others(self.counters.learner_updates)

    def _add_episodes(self, episodes: Episodes) -> None:
        evaluated = episodes.env_ids >= self._experiment.actors.num_training_envs
        for window, which in ((self.episodes, ~evaluated), (self.eval_episodes, evaluated)):
            window.add(episodes.returns[which], episodes.lengths[which])

    def close(self) -> None:
        """Stops serving and acting. Always to be called after `listen`."""
        self._service.stop()  # first: it answers on the server's streams
        self._server.stop(grace=0.5)
