"""The one training loop."""

import dataclasses
import logging
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from seed_rl.agents.base import Agent
from seed_rl.experiment import Experiment
from seed_rl.inference.order import Order
from seed_rl.learner.collector import Collector
from seed_rl.learner.peers import Peers
from seed_rl.learner.progress import Counters, Progress, StepCounter
from seed_rl.learner.replicas import Replicas
from seed_rl.learner.results import UpdateResult
from seed_rl.learner.saving import Saver
from seed_rl.learner.sources import Batch
from seed_rl.learner.train_step import TrainStep
from seed_rl.reporting.learning import Diverged
from seed_rl.reporting.run_log import RunLog, RunState
from seed_rl.reporting.sink import FurtherSink
from seed_rl.reporting.sinks import sinks_of
from seed_rl.system.signals import Stop
from seed_rl.transport.server import ActorServer

_log = logging.getLogger(__name__)

PATIENCE = 20
"""Updates in a row with a step that is not finite: observations and rewards have bounds, so it is the weights."""


@dataclasses.dataclass(eq=False)
class Learner:
    """Trains an experiment's agent on the experience of actors, from the newest checkpoint in the log directory.

    server = loading_server(experiment, address, security)
    server.start()
    learner = build_learner(experiment, logdir, server)
    learner.admit()      # actors may join
    for row in learner.train(stop):   # compiles, then acts and trains
        print(row["env_frames"])
    learner.close()
    """

    experiment: Experiment
    logdir: str
    """Directory of checkpoints and metrics."""
    replicas: Replicas
    agent: Agent
    train_step: TrainStep
    variables: Mapping[str, Any]
    """Keras variables of agent and optimizers by name."""
    progress: Progress
    saver: Saver
    collector: Collector
    server: ActorServer
    peers: Peers
    order: Order
    sinks: Sequence[FurtherSink]
    restored_from: str | None
    """Path of the checkpoint that the run continues from; None for a new run, and for all peers but the first."""

    def __post_init__(self) -> None:
        self._step_counter = StepCounter(self.collector.source, self.experiment, self.peers.count)
        self._left_out_in_a_row = 0

    @property
    def counters(self) -> Counters:
        """Totals of the run."""
        return self.progress.counters

    @property
    def finished(self) -> bool:
        """Whether the run has trained on all of its frames."""
        return self.counters.env_frames >= self.experiment.total_frames

    def admit(self) -> None:
        """Let actors join. They get their first actions once `train` has compiled."""
        self.server.service = self.collector.service

    def train(
        self, stop: Stop, on_update: Callable[[], None] = lambda: None
    ) -> Generator[dict[str, float], None, None]:
        """Train until the run's frames are done, `stop` is set, or the caller leaves; then save a last checkpoint.

        Args:
          stop: event that ends the run.
          on_update: function called after each update.

        Yields:
          Each row of metrics.

        Raises:
          Diverged: updates are not finite any more.
          CheckpointError: the last checkpoint could not be written.
          RuntimeError: inference failed.
        """
        for acting in self.collector.acting:
            acting.warm_up()
        self.collector.service.start()
        if self.replicas.shared and self.peers.count == 1:  # while the first batch is collected
            self._warm_up()
        self.saver.begin()
        began = time.monotonic() - self.counters.seconds
        log = self._open_log()
        try:
            with self.saver.last_checkpoint(on_leaving=self.peers.leave):
                while True:
                    with log.waiting():
                        ends = self.order.ended(self.counters.learner_updates, self.counters.env_frames)
                        leave = stop.is_set() or self.finished or ends
                        batch, leave, env_frames, postponed = self.peers.next(
                            self.collector.source, leave, self.counters.env_frames
                        )
                        if not (leave or postponed):
                            self._step_counter.count(self.counters)
                    self.collector.service.raise_failure()
                    if leave:
                        break
                    if batch is not None and (metrics := self._update(batch, env_frames)):
                        log.add_update(metrics)
                        on_update()
                    self.counters.seconds = time.monotonic() - began
                    if (row := log.row_if_due()) is not None:
                        yield row
                    self.saver.save_if_due()
        finally:
            last = log.close()
        if last is not None:
            yield last

    def _warm_up(self) -> None:
        """Compile the update."""
        count = self.experiment.batch_size
        with self.replicas.scope():
            blank = self.collector.acting[0].unrolls.store.read(tf.zeros([count], tf.int32))
            self.train_step.warm_up(blank, count)

    def _open_log(self) -> RunLog:
        continues = self.counters.learner_updates or self.restored_from
        resumed = (self.counters.env_frames, self.counters.seconds) if continues else None
        sinks = sinks_of(self.experiment, self.logdir, resumed, self.replicas.is_first, self.sinks)
        return RunLog(self._run_state, sinks, self.experiment.logs.metrics_interval_s)

    def _update(self, batch: Batch, env_frames: int) -> dict[str, float]:
        """Update from this learner's part of a batch, after `env_frames` frames of the run.

        Returns:
          The metrics, or none if every step was skipped.
        """
        counters, progress = self.counters, env_frames / self.experiment.total_frames
        with self.replicas.scope():
            unroll = self.replicas.joined(batch.parts)
            seed = (self.experiment.seed, counters.learner_updates)
            with self.peers.explained():
                update = self.train_step(unroll, progress, batch.importance_weights, seed)
        self._count_left_out(update)
        self.collector.source.write_back(update.priorities)
        if not update.metrics:
            return {}
        metrics = update.metrics
        metrics["queue_fill"] = float(np.mean([acting.unrolls.queue.fill for acting in self.collector.acting]))
        metrics["policy_lag"] = float(np.mean(counters.learner_updates - batch.versions))
        counters.learner_updates += 1
        counters.optimizer_steps += update.optimizer_steps
        self.agent.after_update(counters.learner_updates)
        self.collector.refresh_weights(counters.learner_updates, counters.env_frames)
        self.order.learned(counters.learner_updates, self.variables)
        return metrics

    def _count_left_out(self, update: UpdateResult) -> None:
        self.counters.left_out_steps += update.left_out
        self._left_out_in_a_row = self._left_out_in_a_row + 1 if update.left_out else 0
        if self._left_out_in_a_row == 1:
            _log.warning("%d steps of an update were left out: their gradients are not finite", update.left_out)
        if self._left_out_in_a_row >= PATIENCE:
            raise Diverged(f"gradients of {PATIENCE} updates in a row were not finite: the weights can't be helped")

    def _run_state(self) -> RunState:
        counters, stats = self.progress.totals(), self.collector.service.stats
        if not counters["learner_updates"]:  # as long as nothing is learned, rows have the frames of acting
            acted = stats.agent_steps * self.experiment.env.action_repeat
            counters["env_frames"] = max(counters["env_frames"], min(acted, self.experiment.frames_before_update // 2))
        return RunState(
            counters=counters,
            gauges={
                **self.progress.gauges(),
                **self.collector.source.gauges(),
                "actors": self.collector.service.membership.actors,
                "environments": self.collector.service.membership.leased,
            },
            inference=dataclasses.asdict(stats),
        )

    def close(self, over: bool = False) -> None:
        """Stop serving and acting, after `admit`. Actors end if the run is `over`, else wait for it to continue."""
        self.collector.service.stop()  # first: it answers on the server's streams
        self.server.stop(grace=0.5, over=over)
