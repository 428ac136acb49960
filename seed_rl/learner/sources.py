"""Batches for the learner: finished unrolls in order of arrival, or samples from a replay."""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import IO, NamedTuple

import numpy as np
import tensorflow as tf

from seed_rl.agents.base import Agent
from seed_rl.buffers.samplers import Sampler, sampler_class
from seed_rl.buffers.snapshot import arrays_of, read_unrolls, write_snapshot
from seed_rl.buffers.unroll_store import Addresses, Unrolls
from seed_rl.experiment import Replay
from seed_rl.experiment.sizes import INSERT_AT_MOST, Sizes
from seed_rl.specs import CannotAct
from seed_rl.system.archives import Archive, BadArchive
from seed_rl.system.files import explaining
from seed_rl.types import Unroll

POLL_SECONDS = 0.2
"""Time that a learner without a batch waits for one before it looks whether the run is to end."""
Reader = Callable[[Addresses], Sequence[Unroll]]
"""Copies B unrolls out of a store, an equal part for each training device."""


class Batch(NamedTuple):
    """Unrolls for one update."""

    parts: Sequence[Unroll]
    """Fields [L, B / n, ...], an equal part for each of n training devices."""
    versions: np.ndarray
    """int64 [B]: number of learner updates at the start of each unroll."""
    importance_weights: np.ndarray
    """float32 [B]; ones without a prioritized replay."""
    weight_scale: float = 1.0
    """The `Sample.scale` of the weights."""


class Source(abc.ABC):
    """Builds batches from the finished unrolls of acting. For the learner's thread only."""

    taken: int = 0
    """Number of finished unrolls taken from acting so far."""
    ends: int = 0
    """Number of steps in these unrolls that no transition follows (`SlotPool.ends`)."""

    @abc.abstractmethod
    def next(self, timeout: float) -> Batch | None:
        """Return the next batch, copied out of the store; None if none is complete within `timeout` seconds."""

    def batches(self, ends: Callable[[], bool]) -> Iterator[Batch | None]:
        """Yield the next batch, or None where there is none yet, until the run `ends`."""
        while not ends():
            yield self.next(POLL_SECONDS)

    def write_back(self, priorities: np.ndarray) -> None:  # noqa: B027 (without a replay the unrolls are gone)
        """Take the priorities of the last batch after its update, float32 [B]; empty if the agent gives none."""

    def is_over(self, here: bool) -> bool:
        """Return whether the run is over, given whether it is for this learner; asked once, after the last batch."""
        return here

    def gauges(self) -> dict[str, float]:
        """Return the metrics of the source."""
        return {}

    @property
    def snapshot(self) -> ReplaySource | None:
        """Return the replay to save with checkpoints, if any."""
        return None


@dataclasses.dataclass(eq=False)
class FifoSource(Source):
    """Batches of unrolls, each used once."""

    unrolls: Unrolls
    read: Reader
    batch_size: int

    def next(self, timeout: float) -> Batch | None:
        slots = self.unrolls.queue.take(self.batch_size, timeout)
        if slots is None:
            return None
        pool = self.unrolls.pool
        self.taken += len(slots)
        self.ends += int(pool.ends[slots].sum())
        batch = Batch(self.read(self.unrolls.at(slots)), pool.versions[slots], np.ones(len(slots), np.float32))
        pool.release(slots)  # acting fills them while the learner works
        return batch


@dataclasses.dataclass(eq=False)
class ReplaySource(Source):
    """Batches sampled from a replay, which takes a fixed number of new unrolls per batch.

    Batch u (from 0) is drawn once min_size + floor(u * batch_size / ratio) unrolls have been taken, and no more than
    that are taken before it: the ratio is exact, whether acting or learning is faster. The learner waits for slow
    actors here, and fast actors wait for room in the queue.
    """

    unrolls: Unrolls
    read: Reader
    sizes: Sizes
    sampler: Sampler
    agent: Agent
    config: Replay

    def __post_init__(self) -> None:
        self._drawn = 0  # batches so far
        self._last_slots = np.zeros(0, np.int32)

    def next(self, timeout: float) -> Batch | None:
        if (missing := self._due() - self.taken) > 0:
            queue = self.unrolls.queue
            # Pieces whose size does not depend on timing.
            slots = queue.take(min(missing, INSERT_AT_MOST, self.sampler.capacity, queue.capacity), timeout)
            if slots is None:
                return None
            self.insert(slots)
        return self.draw() if self._due() <= self.taken else None

    def _due(self) -> int:
        """Number of unrolls to take before the next batch is drawn."""
        return self.sizes.replay_min_size + int(self._drawn * self.sizes.batch_size / self.config.ratio)

    def insert(self, slots: np.ndarray) -> None:
        """Move up to `INSERT_AT_MOST` finished unrolls, int32 [n], into the replay, and the oldest out of it."""
        self.ends += int(self.unrolls.pool.ends[slots].sum())
        self.unrolls.pool.release(self.sampler.insert(slots, self._initial_priorities(slots)))
        self._leave_room()
        self.taken += len(slots)

    def _leave_room(self) -> None:
        """Evict the oldest until acting has its places: runs that were cut short share fewer of their steps."""
        pool = self.unrolls.pool
        while len(self.sampler) and pool.num_free_places < self.sizes.places_outside:
            pool.release(self.sampler.evict(1))

    def _initial_priorities(self, slots: np.ndarray) -> np.ndarray:
        if self.agent.initial_priorities is None:  # no need to read the unrolls
            return np.full(len(slots), self.sampler.largest_priority)
        padded = np.full(INSERT_AT_MOST, self.unrolls.store.num_slots, np.int32)
        padded[: len(slots)] = slots
        return _usable(self._compiled_priorities(self.unrolls.at(padded)).numpy()[: len(slots)])

    @tf.function(autograph=False)
    def _compiled_priorities(self, addresses: Addresses) -> tf.Tensor:
        assert self.agent.initial_priorities is not None
        unroll = self.unrolls.store.read(addresses)  # compiled, a copy of what is used only
        env_output = unroll.env_output._replace(observation=())
        return self.agent.initial_priorities(unroll._replace(initial_state=(), env_output=env_output))

    def draw(self) -> Batch:
        """Draw a batch from the present content."""
        slots, weights, scale = self.sampler.sample(count := self.sizes.batch_size)
        if np.shape(slots) != (count,) or np.shape(weights) != (count,):
            came = f"{list(np.shape(slots))} slots and {list(np.shape(weights))} weights"
            raise CannotAct(f"{type(self.sampler).__name__}.sample must draw {count} sequences, but came with {came}")
        self._drawn += 1
        self._last_slots = slots
        return Batch(self.read(self.unrolls.at(slots)), self.unrolls.pool.versions[slots], weights, scale)

    def write_back(self, priorities: np.ndarray) -> None:
        if len(priorities):  # of sequences that are all still in the replay
            self.sampler.update(self._last_slots, _usable(priorities))

    @property
    def snapshot(self) -> ReplaySource | None:
        return self if self.config.snapshot else None

    def save(self, file: IO[bytes]) -> None:
        """Write the sequences, their priorities, and the numbers of unrolls taken and batches drawn."""
        state = self.sampler.get_state()
        counts = np.array([self.taken, self._drawn], np.int64)
        extra = {"versions": self.unrolls.pool.versions[state["slots"]], "counts": counts}
        write_snapshot(file, self.unrolls, state["slots"], {**state, **extra})

    def restore(self, file: IO[bytes]) -> None:
        """Restore, before the first batch, what `save` wrote; raise BadArchive if the file is not of such a replay."""
        snapshot = Archive(file)
        arrays = arrays_of(snapshot)
        with explaining(BadArchive, "it is not of such a replay", Exception):
            taken, drawn = map(int, arrays.pop("counts"))
            versions, count = arrays.pop("versions"), len(arrays["slots"])
            slots = self.unrolls.pool.acquire(count)
            self.sampler.set_state({**arrays, "slots": slots})
            self.unrolls.pool.versions[slots] = versions
            read_unrolls(snapshot, self.unrolls, slots)
        self._leave_room()
        self.taken, self._drawn = taken, drawn

    def gauges(self) -> dict[str, float]:
        inserted = self.taken - self.sizes.replay_min_size
        row = {"replay/size": float(len(self.sampler))}
        if self._drawn and inserted > 0:
            row["replay/ratio"] = self._drawn * self.sizes.batch_size / inserted
        return row


def _usable(priorities: np.ndarray) -> np.ndarray:
    """Priority of a sequence whose own is not finite: the lowest, because an update from it would be skipped."""
    return np.where(np.isfinite(priorities), priorities, 0)


def new_source(
    unrolls: Unrolls, read: Reader, sizes: Sizes, agent: Agent, replay: Replay | None, seed: int
) -> FifoSource | ReplaySource:
    """Build the source of one inference device, with or without a replay; `seed` is for the sampler."""
    if replay is None:
        return FifoSource(unrolls, read, sizes.batch_size)
    exponents = replay.priority_exponent, replay.importance_exponent
    sampler = sampler_class(replay.sampler)(sizes.replay_capacity, sizes.num_slots, seed, *exponents)
    return ReplaySource(unrolls, read, sizes, sampler, agent, replay)


class JoinedSource(Source):
    """Combines equal parts of each batch from several sources, in the order of the training devices that they feed."""

    def __init__(self, sources: Sequence[Source]):
        self._sources = sources
        self._batches: list[Batch | None] = [None] * len(sources)

    def next(self, timeout: float) -> Batch | None:
        index = self._batches.index(None)  # each call asks one source; complete batches wait until all have one
        self._batches[index] = self._sources[index].next(timeout)
        self.taken = sum(source.taken for source in self._sources)
        self.ends = sum(source.ends for source in self._sources)
        batches = [batch for batch in self._batches if batch is not None]
        if len(batches) < len(self._sources):
            return None
        self._batches = [None] * len(self._sources)
        scale = max(batch.weight_scale for batch in batches)
        return Batch(
            [part for batch in batches for part in batch.parts],
            np.concatenate([batch.versions for batch in batches]),
            np.concatenate([batch.importance_weights * np.float32(batch.weight_scale / scale) for batch in batches]),
            scale,
        )

    def write_back(self, priorities: np.ndarray) -> None:
        for source, own in zip(self._sources, np.split(priorities, len(self._sources)), strict=True):
            source.write_back(own)

    def gauges(self) -> dict[str, float]:
        """Return the sum of sizes and the mean of all other metrics."""
        rows = [source.gauges() for source in self._sources]
        values = {name: [row[name] for row in rows] for name in set.intersection(*map(set, rows))}
        return {name: float((np.sum if name == "replay/size" else np.mean)(own)) for name, own in values.items()}
