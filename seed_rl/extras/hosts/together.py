"""What learner hosts change in a run: they begin with the same weights, learn from their batches at once, and leave
together."""

import contextlib
import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Any, cast

import numpy as np

from seed_rl.experiment import Experiment
from seed_rl.extras.hosts.collectives import Link, connect
from seed_rl.extras.hosts.hosts import HostLost, Hosts
from seed_rl.learner.gradients import Reduction
from seed_rl.learner.progress import Counters
from seed_rl.learner.replicas import Replicas
from seed_rl.learner.saving import Saver
from seed_rl.learner.sources import POLL_SECONDS, Batch, ReplaySource, Source
from seed_rl.learner.train_step import TrainStep, UpdateResult
from seed_rl.reporting.metrics import Sink
from seed_rl.reporting.sinks import sinks_of
from seed_rl.runs.assembly import Assembly, Parts
from seed_rl.types import Unroll


def with_hosts(hosts: Hosts, experiment: Experiment, assembly: Assembly) -> Assembly:
    """Connect hosts that have met; return the assembly of this one's learner. For the errors see `connect`."""
    link, is_first = connect(hosts, experiment), hosts.index == 0

    def replicas(parts: Parts) -> Replicas:
        link.compare({"the environments' spaces": repr(parts.experiment.env_spec())})  # shapes depend on them
        replicas = assembly.replicas(parts)
        link.compare({"the training devices": list(replicas.split.training)})
        return replicas

    def train_step(parts: Parts) -> TrainStep:
        return HostStep(link, parts)

    def saver(parts: Parts) -> Saver:
        kind = HostSaver if is_first else OtherSaver
        return kind(link, parts.directory, parts.experiment.logs, parts.variables, parts.progress)

    def restore(parts: Parts) -> None:
        """Begin with the state of host 0. Also a barrier: once all are here, none waits for another's weights."""
        if is_first:
            assembly.restore(parts)
        own = {name: variable.numpy() for name, variable in parts.variables.items()}
        # They differ where the code of a network or an agent does.
        link.compare({f"the shape of {name}": f"{a.dtype} {list(a.shape)}" for name, a in own.items()})
        for variable, array in zip(parts.variables.values(), link.of_first(list(own.values())), strict=True):
            variable.assign(array)
        counters = parts.progress.counters
        vars(counters).update(link.gather(dataclasses.asdict(counters))[0])

    def source(parts: Parts) -> Source:
        return HostSource(link, assembly.source(parts), parts.progress.counters, parts.experiment.env.action_repeat)

    def finish(parts: Parts) -> None:
        cast(HostSource, parts.source).catch_up()  # with the replay that was restored meanwhile
        assembly.finish(parts)

    def sinks(parts: Parts, resumed: tuple[int, float] | None) -> list[Sink]:
        """Write metrics of a host other than the first into its directory only."""
        logs = dataclasses.replace(parts.experiment.logs, wandb_project="")
        return sinks_of(dataclasses.replace(parts.experiment, logs=logs), parts.directory, resumed)

    together = assembly._replace(
        replicas=replicas, train_step=train_step, saver=saver, restore=restore, source=source, finish=finish
    )
    return together if is_first else together._replace(sinks=sinks)


class HostStep(TrainStep):
    """An update that all hosts make at once, each from its own batch, by the schedules of the frames of host 0."""

    def __init__(self, link: Link, parts: Parts):
        experiment, reduction = parts.experiment, Reduction(parts.learners, link.mean, link.maximum)
        settings = experiment.optimizer, parts.replicas.strategy, experiment.passes, experiment.minibatches
        super().__init__(parts.agent, *settings, reduction)
        self._link, self._total_frames = link, experiment.total_frames

    def __call__(
        self, unroll: Unroll, progress: float, importance_weights: np.ndarray, seed: int | Sequence[int] = 0
    ) -> UpdateResult:
        own_seed = (*np.atleast_1d(seed), self._link.hosts.index)
        with self._link.explaining():
            return super().__call__(unroll, self._link.env_frames / self._total_frames, importance_weights, own_seed)

    def warm_up(self, unroll: Unroll, count: int) -> None:
        """Compile nothing: an update takes all hosts."""


class HostSource(Source):
    """Yields batches when all hosts have one, and ends when one of them wants to end.

    Importance weights become relative to the largest of all hosts.
    Host 0 counts frames, and the others follow: what each takes differs by the ends of its episodes, and where only
    some fill a replay again.
    """

    def __init__(self, link: Link, source: Source, counters: Counters, action_repeat: int):
        self._link, self._source, self._counters, self._action_repeat = link, source, counters, action_repeat
        self._waiting: Batch | None = None  # until all hosts have one

    def catch_up(self) -> None:
        """Count what the source has taken by now, or as host 0 does."""
        if self._link.hosts.index == 0:
            self.taken, self.ends = self._source.taken, self._source.ends
        elif self._link.env_frames:
            self._counters.env_frames = self._link.env_frames
            self._counters.agent_steps = self._link.env_frames // self._action_repeat

    def next(self, timeout: float) -> Batch | None:
        return self._source.next(timeout)

    def batches(self, ends: Callable[[], bool]) -> Iterator[Batch | None]:
        while True:
            leave = ends()
            if self._waiting is None and not leave:
                self._waiting = self.next(POLL_SECONDS)
            scale = self._waiting.weight_scale if self._waiting else 0.0
            leave, update = self._link.agree(leave, self._waiting is not None, self._counters.env_frames, scale)
            if leave:
                self.catch_up()
                return
            batch = self._waiting if update else None
            if batch and scale != self._link.weight_scale:
                weights = batch.importance_weights * np.float32(scale / self._link.weight_scale)
                batch = batch._replace(importance_weights=weights, weight_scale=self._link.weight_scale)
            if update or self._waiting is None:  # frames of a batch count when all learn from it
                self._waiting = None
                self.catch_up()
            yield batch

    def write_back(self, priorities: np.ndarray) -> None:
        self._source.write_back(priorities)

    def is_over(self, here: bool) -> bool:
        """Return whether the run is over for any host; if one is gone meanwhile, whether it is for this one."""
        try:
            return bool(self._link.sum(np.array([here], np.int32)).any())
        except HostLost:
            return here

    def gauges(self) -> dict[str, float]:
        return self._source.gauges()

    @property
    def snapshot(self) -> ReplaySource | None:
        return self._source.snapshot


class HostSaver(Saver):
    """The checkpoints of all hosts, written by the first."""

    def __init__(self, link: Link, *arguments: Any):
        super().__init__(*arguments)
        self._link = link

    @contextlib.contextmanager
    def last_checkpoint(self) -> Iterator[None]:
        with super().last_checkpoint():
            try:
                yield
            except GeneratorExit:  # at a yield; in the middle of an update, the others wait elsewhere
                self._link.leave()
                raise


class OtherSaver(HostSaver):
    """Writes nothing."""

    def attach(self, snapshot: ReplaySource | None) -> None:
        """Leave the replay to each start of the run."""

    def save_if_due(self) -> None:
        """Leave it to host 0."""

    def save(self) -> None:
        """Leave it to host 0."""
