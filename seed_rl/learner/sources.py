"""Where the learner's batches come from: finished unrolls in the order they came, or a prioritized replay of them."""

from __future__ import annotations

import abc
import time
from collections.abc import Callable, Sequence
from typing import IO, NamedTuple, Protocol

import numpy as np
import tensorflow as tf

from seed_rl.agents.base import ReplayAgent
from seed_rl.buffers.prioritized_replay import PrioritizedReplay
from seed_rl.buffers.slots import SlotPool, UnrollQueue
from seed_rl.buffers.snapshot import BadSnapshot, read_arrays, read_unrolls, write_snapshot
from seed_rl.buffers.unroll_store import UnrollStore
from seed_rl.experiment import Replay
from seed_rl.learner.diverged import Diverged
from seed_rl.types import Unroll


class Batch(NamedTuple):
    """Unrolls for one update."""

    parts: Sequence[Unroll]
    """Fields [L, B / n, ...], an equal part for each of n devices that train."""
    versions: np.ndarray
    """int64 [B]: learner updates at the time each unroll was begun."""
    importance_weights: np.ndarray | None = None
    """float32 [B], None where unrolls are not replayed."""


class Snapshot(Protocol):
    """What a source holds, to be saved with checkpoints."""

    def save(self, file: IO[bytes]) -> None:
        """Writes it."""

    def restore(self, file: IO[bytes]) -> None:
        """Takes over, before the first batch, what `save` wrote.

        Raises:
          BadSnapshot: the file is not one of this kind of source.
        """


class Source(abc.ABC):
    """Takes finished unrolls from acting and makes batches of them. Used by the learner's thread only."""

    @property
    @abc.abstractmethod
    def taken(self) -> int:
        """Finished unrolls taken from acting so far."""

    @abc.abstractmethod
    def next(self, timeout: float) -> Batch | None:
        """The next batch, copied out of the store; None when none is complete within `timeout` seconds."""

    @abc.abstractmethod
    def write_back(self, priorities: np.ndarray) -> None:
        """Takes the priorities float32 [B] that the update with the last batch gave (none where unused)."""

    def gauges(self) -> dict[str, float]:
        """Numbers about the source for the logs."""
        return {}

    @property
    def snapshot(self) -> Snapshot | None:
        """What is to be saved of it."""
        return None


class Finished(NamedTuple):
    """Finished unrolls of one device that acts, as a source sees them."""

    store: UnrollStore
    """Where the unrolls are."""
    read: Callable[[tf.Tensor], Sequence[Unroll]]
    """Copies batches out of it, given their slots: an equal part for each device that learns from them."""
    pool: SlotPool
    """Where their slots go."""
    queue: UnrollQueue
    """Where finished ones come from."""
    slot_versions: np.ndarray
    """int64 [number of slots], kept by whoever begins unrolls: learner updates at that time."""


class FifoSource(Source):
    """Batches of unrolls, each used once."""

    def __init__(self, finished: Finished, batch_size: int):
        """
        Args:
          finished: where they come from.
          batch_size: B.
        """
        self._finished = finished
        self._batch_size = batch_size
        self._taken = 0

    @property
    def taken(self) -> int:
        """See `Source.taken`."""
        return self._taken

    def next(self, timeout: float) -> Batch | None:
        """See `Source.next`. The slots are free when this returns: inference fills them while the learner works."""
        slots = self._finished.queue.take(self._batch_size, timeout)
        if slots is None:
            return None
        self._taken += len(slots)
        batch = Batch(self._finished.read(tf.constant(slots)), self._finished.slot_versions[slots])
        self._finished.pool.release(slots)
        return batch

    def write_back(self, priorities: np.ndarray) -> None:
        """Nothing: what has been learned from is gone."""


class ReplaySource(Source):
    """Batches drawn from a prioritized replay, which takes a fixed number of new unrolls per batch.

    Batch u (from 0) is drawn once min_size + floor(u * batch_size / ratio) unrolls have been taken, and no more than
    that are taken before it: the ratio holds exactly whoever is faster. The learner waits for slow actors here, and
    fast actors wait for room in the queue.
    """

    INSERT_AT_MOST = 32
    """Unrolls inserted at a time, and so the slots that may be neither in the queue nor in the replay."""

    def __init__(
        self,
        finished: Finished,
        *,
        batch_size: int,
        replay: PrioritizedReplay,
        agent: ReplayAgent,
        config: Replay,
    ):
        """
        Args:
          finished: where unrolls come from.
          batch_size: B.
          replay: over the store's slots.
          agent: gives the priorities that unrolls start with.
          config: of the replay.
        """
        self._finished = finished
        self._batch_size = batch_size
        self._replay = replay
        self._agent = agent
        self._config = config
        self._taken = 0
        self._drawn = 0
        """Batches drawn so far."""
        self._last_slots = np.zeros(0, np.int32)

    @property
    def taken(self) -> int:
        """See `Source.taken`."""
        return self._taken

    def __len__(self) -> int:
        """Unrolls in the replay."""
        return len(self._replay)

    def next(self, timeout: float) -> Batch | None:
        """See `Source.next`. What arrived meanwhile stays in the replay when there is no batch yet."""
        deadline = time.monotonic() + timeout
        while (missing := self._due() - self._taken) > 0:
            remaining = max(0.0, deadline - time.monotonic())
            at_most = min(missing, self.INSERT_AT_MOST, self._config.capacity)
            slots = self._finished.queue.take(at_most, remaining, at_least=1)
            if slots is None:
                return None
            self.insert(slots)
            if time.monotonic() >= deadline and self._due() > self._taken:
                return None
        return self.draw()

    def _due(self) -> int:
        """Unrolls to be taken before the next batch is drawn."""
        return self._config.min_size + int(self._drawn * self._batch_size / self._config.ratio)

    def insert(self, slots: np.ndarray) -> None:
        """Moves finished unrolls, int32 [n], into the replay and the oldest out of it.

        Raises:
          Diverged: the acting network's values are not finite.
        """
        for begin in range(0, len(slots), self.INSERT_AT_MOST):
            self._insert(slots[begin : begin + self.INSERT_AT_MOST])

    def _insert(self, slots: np.ndarray) -> None:
        padded = np.full(self.INSERT_AT_MOST, self._finished.store.num_slots, np.int32)
        padded[: len(slots)] = slots
        priorities = self._initial_priorities(tf.constant(padded)).numpy()[: len(slots)]
        if not np.isfinite(priorities).all():
            raise Diverged("the values that the network acts by are not finite any more")
        self._finished.pool.release(self._replay.insert(slots, priorities))
        self._taken += len(slots)

    @tf.function
    def _initial_priorities(self, slots: tf.Tensor) -> tf.Tensor:
        return self._agent.initial_priorities(self._finished.store.read_outcome(slots))

    def draw(self) -> Batch:
        """A batch from what is inside now."""
        sample = self._replay.sample(self._batch_size)
        self._drawn += 1
        self._last_slots = sample.slots
        parts = self._finished.read(tf.constant(sample.slots))
        return Batch(parts, self._finished.slot_versions[sample.slots], sample.weights)

    def write_back(self, priorities: np.ndarray) -> None:
        """Gives the sequences of the last batch, all of which are still inside, their new priorities."""
        self._replay.update(self._last_slots, priorities)

    @property
    def snapshot(self) -> Snapshot | None:
        """Itself, if the config says so."""
        return self if self._config.snapshot else None

    def save(self, file: IO[bytes]) -> None:
        """Writes the sequences, their priorities and the count of what was taken and drawn."""
        state = self._replay.get_state()
        counts = np.array([self._taken, self._drawn], np.int64)
        extra = {"versions": self._finished.slot_versions[state["slots"]], "counts": counts}
        write_snapshot(file, self._finished.store, state["slots"], {**state, **extra})

    def restore(self, file: IO[bytes]) -> None:
        """See `Snapshot.restore`. The ratio is kept as if the run had not been interrupted."""
        arrays = read_arrays(file)
        try:
            counts, versions = arrays.pop("counts"), arrays.pop("versions")
            slots = self._finished.pool.acquire(len(arrays["slots"]))
            self._replay.set_state({**arrays, "slots": slots})
        except (KeyError, RuntimeError, ValueError) as error:
            raise BadSnapshot(f"it is not of such a replay: {error}") from error
        file.seek(0)
        read_unrolls(file, self._finished.store, slots)
        self._finished.slot_versions[slots] = versions
        self._taken, self._drawn = counts.tolist()

    def gauges(self) -> dict[str, float]:
        """How full the replay is, and how often each unroll has been replayed since it was filled."""
        inserted = self._taken - self._config.min_size
        row = {"replay/size": float(len(self._replay))}
        if self._drawn and inserted > 0:
            row["replay/ratio"] = self._drawn * self._batch_size / inserted
        return row
