"""The one training loop."""

import dataclasses
import logging
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from typing import Any

import numpy as np

from seed_rl.agents.base import Agent
from seed_rl.experiment import Experiment
from seed_rl.inference.acting import Acting
from seed_rl.inference.service import CentralInference
from seed_rl.learner.progress import Counters, Progress
from seed_rl.learner.replicas import Replicas
from seed_rl.learner.saving import Saver
from seed_rl.learner.sources import Batch, Source
from seed_rl.learner.train_step import TrainStep, UpdateResult
from seed_rl.reporting.learning import Diverged
from seed_rl.reporting.metrics import Sink
from seed_rl.reporting.run_log import RunLog, RunState
from seed_rl.system.signals import Stop

_log = logging.getLogger(__name__)

PATIENCE = 20
"""Updates in a row with a step that is not finite: observations and rewards have bounds, so it is the weights."""


@dataclasses.dataclass(eq=False)
class Learner:
    """Trains an agent on the experience of actors; `runs.assembly` puts its parts together."""

    experiment: Experiment
    replicas: Replicas
    agent: Agent
    train_step: TrainStep
    progress: Progress
    saver: Saver
    acting: Sequence[Acting]
    """One per inference device."""
    service: CentralInference
    source: Source
    copy_weights: Callable[[], None]
    """Gives the inference devices the weights after an update."""
    open_sinks: Callable[[tuple[int, float] | None], Sequence[Sink]]
    """Opens the destinations of metrics, given `env_frames` and `seconds` of a run that continues."""
    learners: int = 1
    """Number of learners, each with an equal part of every batch."""

    def __post_init__(self) -> None:
        self._counted = self._steps_taken()  # by a replay that was restored
        self._left_out_in_a_row = 0

    @property
    def counters(self) -> Counters:
        """Totals of the run."""
        return self.progress.counters

    @property
    def finished(self) -> bool:
        """Whether the run has trained on all of its frames."""
        return self.counters.env_frames >= self.experiment.total_frames

    def train(
        self, stop: Stop, on_update: Callable[[], None] = lambda: None
    ) -> Generator[dict[str, float], None, None]:
        """Train until the run's frames are done, `stop` is set, or the caller leaves; then save a last checkpoint.

        Yields the row of each interval, and of a shorter last one. Raises Diverged if updates are not finite any more,
        Failure if the last checkpoint can't be written, RuntimeError if inference failed.
        """
        for acting in self.acting:
            acting.act_step.warm_up(acting.act_step.batch_sizes[-1:])  # others compile on first use
        self.service.start()
        if self.replicas.shared:  # while the first batch is collected
            count = self.experiment.batch_size
            with self.replicas.scope():
                self.train_step.warm_up(self.acting[0].unrolls.read_blank(count), count)
        self.saver.begin()
        began = time.monotonic() - self.counters.seconds
        continues = self.counters.learner_updates or self.progress.restored
        resumed = (self.counters.env_frames, self.counters.seconds) if continues else None
        interval, frames_per_row = self.experiment.logs.metrics_interval_s, self.experiment.total_frames / 100
        log = RunLog(self._run_state, self.open_sinks(resumed), interval, frames_per_row)
        try:
            with self.saver.last_checkpoint():
                for batch, env_frames in self._rounds(stop, log):
                    if batch is not None and (metrics := self._update(batch, env_frames)):
                        log.add_update(metrics)
                        on_update()
                    self.counters.seconds = time.monotonic() - began
                    if (summary := log.summary_if_due(self.counters.env_frames)) is not None:
                        yield summary
                    self.saver.save_if_due()
        finally:
            last = log.close()
        if last is not None:
            yield last

    def _rounds(self, stop: Stop, log: RunLog) -> Iterator[tuple[Batch | None, int]]:
        """Yield batches, None if there is none yet, and the frames learned from before them."""
        batches = self.source.batches(lambda: stop.is_set() or self.finished)
        over = object()
        while True:
            env_frames = self.counters.env_frames
            with log.waiting():
                batch: Any = next(batches, over)
                if batch is not over:
                    self._count_steps()
            self.service.raise_failure()
            if batch is over:
                return
            yield batch, env_frames

    def _steps_taken(self) -> int:
        """Number of agent steps that the source has taken from acting, each once, however often it is replayed."""
        return self.source.taken * self.experiment.agent.unroll_length - self.source.ends

    def _count_steps(self) -> None:
        """Count the steps taken since the last call; other learners take as many unrolls."""
        steps = (self._steps_taken() - self._counted) * self.learners
        self._counted = self._steps_taken()
        self.counters.agent_steps += steps
        self.counters.env_frames += steps * self.experiment.env.action_repeat

    def _update(self, batch: Batch, env_frames: int) -> dict[str, float]:
        """Update from this learner's part of a batch, after `env_frames` frames; without metrics if all was skipped."""
        counters, progress = self.counters, env_frames / self.experiment.total_frames
        with self.replicas.scope():
            unroll = self.replicas.join(batch.parts)
            seed = (self.experiment.seed, counters.learner_updates)
            update = self.train_step(unroll, progress, batch.importance_weights, seed)
        self._count_left_out(update)
        self.source.write_back(update.priorities)
        if not (metrics := update.metrics):
            return {}
        queues = [acting.unrolls.queue for acting in self.acting]
        metrics["queue_fill"] = float(np.mean([len(queue) / queue.capacity for queue in queues]))
        metrics["policy_lag"] = float(np.mean(counters.learner_updates - batch.versions))
        counters.learner_updates += 1
        counters.optimizer_steps += update.optimizer_steps
        self.agent.after_update(counters.learner_updates)
        self.refresh_weights()
        return metrics

    def refresh_weights(self) -> None:
        """Give the inference devices the newest weights."""
        for acting in self.acting:
            acting.cursor.newest_version = self.counters.learner_updates
        self.copy_weights()

    def _count_left_out(self, update: UpdateResult) -> None:
        self.counters.left_out_steps += update.left_out
        self._left_out_in_a_row = self._left_out_in_a_row + 1 if update.left_out else 0
        if self._left_out_in_a_row == 1:
            _log.warning("%d steps of an update were left out: their gradients are not finite", update.left_out)
        if self._left_out_in_a_row >= PATIENCE:
            raise Diverged(f"gradients of {PATIENCE} updates in a row were not finite: the weights can't be helped")

    def _run_state(self) -> RunState:
        counters, stats = self.progress.totals(), self.service.stats
        if not counters["learner_updates"]:  # as long as nothing is learned, rows have the frames of acting
            acted = stats.agent_steps * self.experiment.env.action_repeat
            counters["env_frames"] = max(counters["env_frames"], min(acted, self.experiment.frames_before_update // 2))
        gauges = {**self.progress.gauges(), **self.source.gauges(), **self.service.connected()}
        return RunState(counters, gauges, inference=dataclasses.asdict(stats))
