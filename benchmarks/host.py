"""The learner's side of a benchmark: the real server and inference in a process of their own, and what it uses."""

from __future__ import annotations

import dataclasses
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

import psutil

from benchmarks import usage
from benchmarks.failures import MeasurementFailed
from benchmarks.usage import ThreadUse
from seed_rl.experiment import Experiment
from seed_rl.launch.native_output import import_quietly
from seed_rl.transport.credentials import ServerSecurity
from seed_rl.transport.server import ActorServer

if TYPE_CHECKING:
    from seed_rl.inference.service import CentralInference

NULL = "null"
"""Observations are batched and answered with zeros; no step is kept."""
ACT = "act"
"""The real act step; finished unrolls are taken and given back."""
TRAIN = "train"
"""The real act step, and the learner's update on all unrolls; without checkpoints and logs."""
MODELS = (NULL, ACT, TRAIN)


class Snapshot(NamedTuple):
    """The state of a host at one moment; counters grow from its start."""

    seconds: float
    """A clock."""
    agent_steps: int
    messages: int
    batches: int
    padded_steps: int
    acting_seconds: float
    """Wall-clock time of act steps."""
    blocked_seconds: float
    """Wall-clock time that inference waited for room in the queue of unrolls."""
    updates: int
    threads: Mapping[int, ThreadUse]
    cpu_seconds: float
    """Of the whole process."""
    machine_seconds: float
    """That the machine's cores were busy, with whatever."""
    rss_bytes: int
    file_descriptors: int
    streams: int


class Used(NamedTuple):
    """What happened between two snapshots."""

    seconds: float
    observations: int
    messages: int
    batches: int
    updates: int
    batch_fill: float
    """Share of the rows of act steps that were not padding."""
    act_ms: float
    """Wall-clock milliseconds per act step."""
    acting: float
    """Share of the time that an act step was running."""
    blocked: float
    """Share of the time that inference waited for room in the queue of unrolls."""
    cores: dict[str, float]
    """CPU seconds per second of each kind of thread, `usage.KINDS`."""
    server: float
    """CPU seconds per second of the server's thread, which is one."""
    cpu_seconds: float
    """Of the whole process."""
    machine: float
    """Share of all the machine's cores that was busy, with whatever."""


@contextmanager
def learner_host(experiment: Experiment, model: str, address: str) -> Iterator[Callable[[None], Snapshot]]:
    """Serves until left; gives what takes a snapshot. For `children.Child`.

    Args:
      experiment: sizes of everything; with `NULL` only its environments and the largest batch count.
      model: one of `MODELS`.
      address: where, without TLS.
    """
    consumer: _Consumer | None = None
    if model == NULL:
        import_quietly("benchmarks.transport")  # TensorFlow and all
        from benchmarks.transport import null_inference

        actors = experiment.actors
        largest = min(experiment.inference.max_batch_size, actors.num_envs)
        service = null_inference(experiment.env.spec(), actors.num_envs, largest)
    else:
        service, learn = _learner(experiment, model)
        consumer = _Consumer(learn)
    of_tensorflow = frozenset(usage.own_threads())  # its pools are there: the act step has been warmed up
    server = ActorServer(address, service, security=ServerSecurity())
    process = psutil.Process()

    def snapshot(_: None) -> Snapshot:
        failure = service.failure or (consumer.failure if consumer is not None else None)
        if failure is not None:
            raise RuntimeError(f"the learner failed: {failure}") from failure
        stats = service.stats
        return Snapshot(
            seconds=time.monotonic(),
            agent_steps=stats.agent_steps,
            messages=server.stats.steps,
            batches=stats.batches,
            padded_steps=stats.padded_steps,
            acting_seconds=stats.acting_seconds,
            blocked_seconds=stats.blocked_seconds,
            updates=consumer.updates if consumer is not None and model == TRAIN else 0,
            threads=usage.own_threads(of_tensorflow),
            cpu_seconds=time.process_time(),
            machine_seconds=usage.machine_busy_seconds(),
            rss_bytes=process.memory_info().rss,
            file_descriptors=len(os.listdir("/proc/self/fd")),
            streams=server.stats.streams,
        )

    service.start()
    server.start()
    if consumer is not None:
        consumer.start()
    try:
        yield snapshot
    finally:
        service.stop()
        server.stop(grace=0.5)
        if consumer is not None:
            consumer.stop()


def used_between(before: Snapshot, after: Snapshot) -> Used:
    """What happened between two snapshots.

    Raises:
      MeasurementFailed: no batch was answered.
    """
    seconds, batches = after.seconds - before.seconds, after.batches - before.batches
    if batches <= 0 or seconds <= 0:
        raise MeasurementFailed("the learner answered no batch of observations in the time of the measurement")
    observations = after.agent_steps - before.agent_steps
    by_kind = usage.cpu_by_kind(before.threads, after.threads)
    server = usage.cpu_of_thread(before.threads, after.threads, usage.SERVER_THREAD)
    return Used(
        seconds=seconds,
        observations=observations,
        messages=after.messages - before.messages,
        batches=batches,
        updates=after.updates - before.updates,
        batch_fill=observations / (observations + after.padded_steps - before.padded_steps),
        act_ms=1000 * (after.acting_seconds - before.acting_seconds) / batches,
        acting=(after.acting_seconds - before.acting_seconds) / seconds,
        blocked=(after.blocked_seconds - before.blocked_seconds) / seconds,
        cores={kind: cpu / seconds for kind, cpu in by_kind.items()},
        server=server / seconds,
        cpu_seconds=after.cpu_seconds - before.cpu_seconds,
        machine=(after.machine_seconds - before.machine_seconds) / seconds / (os.cpu_count() or 1),
    )


def _learner(experiment: Experiment, model: str) -> tuple[CentralInference, Callable[[], bool]]:
    """Central inference with its act step compiled, and what takes its unrolls: see `_Consumer`."""
    import_quietly("benchmarks.components")  # TensorFlow and all
    from seed_rl.learner.assembly import assemble
    from seed_rl.learner.train_step import TrainStep

    agent = experiment.build_agent()
    service, [acting], source = assemble(experiment, [agent], experiment.env.spec(), experiment.seed)
    acting.act_step.warm_up()
    if model == ACT:

        def discard() -> bool:
            slots = acting.queue.take(acting.queue.capacity, 0.2, at_least=1)
            if slots is not None:
                acting.pool.release(slots)
            return False

        return service, discard

    import tensorflow as tf

    train_step = TrainStep(agent, experiment.optimizer)
    if experiment.replay is None:
        train_step(acting.store.read(tf.zeros([experiment.batch_size], tf.int32)), 0.0)  # compiles

    def learn() -> bool:
        batch = source.next(0.2)
        if batch is None:
            return False
        source.write_back(train_step(batch.parts[0], 0.0, batch.importance_weights).priorities)
        return True

    return service, learn


class _Consumer:
    """A thread that takes the unrolls that acting finishes."""

    def __init__(self, take: Callable[[], bool]):
        """
        Args:
          take: takes what there is, waiting a moment for it; returns whether that was an update.
        """
        self.updates = 0
        self.failure: BaseException | None = None
        self._take = take
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="learner", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        try:
            while not self._stop.is_set():
                self.updates += self._take()
        except Exception as error:
            self.failure = error


def host_experiment(experiment: Experiment, streams: int, group_size: int, largest_batch: int) -> Experiment:
    """An experiment with as many actors of one group as there are streams.

    Args:
      experiment: all the rest.
      streams: actors.
      group_size: environments of each.
      largest_batch: environments of an act step at the most; raised to the size of a group.
    """
    return dataclasses.replace(
        experiment,
        actors=dataclasses.replace(
            experiment.actors, num_actors=streams, groups_per_actor=1, envs_per_group=group_size, num_eval_envs=0
        ),
        inference=dataclasses.replace(experiment.inference, max_batch_size=max(largest_batch, group_size)),
    )
