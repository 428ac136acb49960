"""Samplers decide which finished unrolls a replay keeps and draws; they hold slot numbers, not data.

`Replay.sampler` names one, which may be a subclass of your own as `module:Class`. NumPy only.
"""

import abc
import json
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from seed_rl.buffers.sum_tree import SumTree
from seed_rl.foreign import json_object
from seed_rl.own_classes import own_class

PRIORITY_FLOOR = 1e-6
"""The lower bound of priorities, so that every sequence can be drawn."""

# Priorities come from float32 losses. With this bound, their float64 sum cannot overflow.
_LARGEST_PRIORITY = float(np.finfo(np.float32).max)


class Sample(NamedTuple):
    """B sequences drawn from a replay."""

    slots: np.ndarray
    """int32 [B]: slots of the store, possibly repeated."""
    weights: np.ndarray
    """float32 [B]: importance weights for the loss; the largest is 1."""
    scale: float = 1.0
    """The largest weight before all were divided by it, by which those of several replays compare."""


class Sampler(abc.ABC):
    """The slot numbers of the `capacity` newest finished sequences; a subclass decides how to draw from them.

    Inserting transfers a slot to the sampler; evicting returns it to the pool of free slots. A slot occurs at most
    once. Not thread-safe: only the learner's thread may use it. `insert` and `update` change nothing if they raise.
    """

    def __init__(
        self, capacity: int, num_slots: int, seed: int, priority_exponent: float = 1.0, importance_exponent: float = 1.0
    ):
        """The store has `num_slots`, also for unrolls in progress; see `PrioritizedSampler` for the exponents."""
        self.capacity = capacity
        self.priority_exponent, self.importance_exponent = priority_exponent, importance_exponent
        self.generator = np.random.Generator(np.random.PCG64([seed, 1]))  # not what an environment has of the seed
        # A ring buffer: `len(self)` slots starting at `_oldest`, oldest first.
        self._order = np.zeros(capacity, np.int32)
        self._places = np.zeros(num_slots, np.int64)  # in that ring, by slot
        self._oldest = 0
        self._size = 0
        self._priorities = np.zeros(num_slots, np.float64)  # by slot; zero if and only if the slot is not inside

    def __len__(self) -> int:
        return self._size

    @property
    def slots(self) -> np.ndarray:
        """Slots of the sequences inside, oldest first: int32 [len(self)]."""
        return self._order[self._ring(np.arange(self._size))]

    @property
    def priorities(self) -> np.ndarray:
        """Priorities of the sequences inside, oldest first: float64 [len(self)], positive."""
        return self._priorities[self.slots]

    @property
    def largest_priority(self) -> float:
        """The largest priority inside; 1 in an empty replay."""
        return float(self._priorities.max()) if self._size else 1.0

    def insert(self, slots: np.ndarray, priorities: np.ndarray) -> np.ndarray:
        """Add finished sequences, oldest first; return the slots evicted to make room, int32 [m], oldest first.

        The slots, int32 [n], are different ones that are not inside, n <= `capacity`. The priorities, float [n], are
        raised to `PRIORITY_FLOOR`. A ValueError says which of this is not so.
        """
        priorities = _usable_priorities(slots, priorities)
        if len(slots) > self.capacity:
            raise ValueError(f"{len(slots)} sequences do not fit into a replay with a capacity of {self.capacity}")
        if len(np.unique(slots)) < len(slots):
            raise ValueError("a slot is given twice")
        if (inside := self._priorities[slots] > 0).any():
            raise ValueError(f"slot {slots[inside][0]} is already inside")
        evicted = self.evict(max(0, self._size + len(slots) - self.capacity))
        self._places[slots] = self._ring(self._size + np.arange(len(slots)))
        self._order[self._places[slots]] = slots
        self._size += len(slots)
        self._set(slots, priorities)
        return evicted

    def evict(self, count: int) -> np.ndarray:
        """Remove the `count` oldest sequences, or all if there are fewer; return their slots, oldest first."""
        evicted = self._order[self._ring(np.arange(min(count, self._size)))]
        self._oldest = (self._oldest + len(evicted)) % self.capacity
        self._size -= len(evicted)
        self._set(evicted, np.zeros(len(evicted)))
        return evicted

    @abc.abstractmethod
    def sample(self, count: int) -> Sample:
        """Draw `count` of the sequences inside, at least one, independently with replacement."""

    def update(self, slots: np.ndarray, priorities: np.ndarray) -> None:
        """Set new priorities of `slots` inside, as in `insert`; if a slot is repeated, its last priority counts."""
        priorities = _usable_priorities(slots, priorities)
        if (outside := self._priorities[slots] == 0).any():
            raise ValueError(f"slot {slots[outside][0]} is not inside")
        self._set(slots, priorities)

    def get_state(self) -> dict[str, np.ndarray]:
        """Return slots int32 [N], oldest first, priorities float64 [N], and the random generator's state as JSON."""
        generator = np.frombuffer(json.dumps(self.generator.bit_generator.state).encode(), np.uint8).copy()
        return {"slots": self.slots, "priorities": self.priorities, "generator": generator}

    def set_state(self, state: Mapping[str, np.ndarray]) -> None:
        """Take a state of `get_state`, of a sampler of any capacity, or raise a ValueError if it does not fit."""
        expected = {"slots", "priorities", "generator"}
        if set(state) != expected:
            raise ValueError(f"the state of a replay has {sorted(expected)}, not {sorted(state)}")
        self.evict(self._size)
        self._oldest = 0
        self.insert(np.asarray(state["slots"], np.int32), state["priorities"])
        self.generator.bit_generator.state = json_object(np.asarray(state["generator"], np.uint8).tobytes())

    def _ring(self, ranks: np.ndarray) -> np.ndarray:
        """Return positions in `_order`, int64 [n], of sequences by age rank, int [n], where 0 is the oldest."""
        return (self._oldest + ranks) % self.capacity

    def _set(self, slots: np.ndarray, priorities: np.ndarray) -> None:
        """Store the priorities of `slots`, float64 [n]; zero for slots that are no longer inside."""
        self._priorities[slots] = priorities


def _usable_priorities(slots: np.ndarray, priorities: np.ndarray) -> np.ndarray:
    """Check the priorities of some slots, and return them raised to the floor, float64 [n]."""
    priorities = np.asarray(priorities, np.float64)
    if slots.shape != priorities.shape:
        raise ValueError(f"expected slots [n] and priorities [n], got {slots.shape} and {priorities.shape}")
    bad = ~((priorities >= 0) & (priorities <= _LARGEST_PRIORITY))
    if np.any(bad):
        raise ValueError(f"priority {priorities[bad][0]} of slot {slots[bad][0]} is not a finite number of at least 0")
    return np.maximum(priorities, PRIORITY_FLOOR)


class UniformSampler(Sampler):
    """Draws all sequences with equal probability; priorities are ignored and all importance weights are 1."""

    largest_priority = 1.0

    def sample(self, count: int) -> Sample:
        slots = self._order[self._ring(self.generator.integers(self._size, size=count))]
        return Sample(slots, np.ones(count, np.float32))


class PrioritizedSampler(Sampler):
    """Draws sequences in proportion to a power of their priorities.

        P(i) = p_i^alpha / sum_k p_k^alpha,   w_i = (N P(i))^-beta / max over the batch

    with N sequences inside: Schaul et al., "Prioritized Experience Replay" (arXiv:1511.05952), with sequences in place
    of transitions as in R2D2 (Kapturowski et al., ICLR 2019).
    """

    def __init__(self, capacity: int, num_slots: int, seed: int, *exponents: float):
        super().__init__(capacity, num_slots, seed, *exponents)
        # p^alpha by place in the ring: which slot a sequence got depends on timing and must not change the draws.
        self._tree = SumTree(capacity)

    def sample(self, count: int) -> Sample:
        total = self._tree.total
        places = self._tree.find(self.generator.random(count) * total)
        probabilities = self._tree.get(places) / total
        # The smallest probability has the largest weight.
        least, exponent = np.min(probabilities), -self.importance_exponent
        weights = (probabilities / least) ** exponent
        return Sample(self._order[places], weights.astype(np.float32), float((len(self) * least) ** exponent))

    def _set(self, slots: np.ndarray, priorities: np.ndarray) -> None:
        super()._set(slots, priorities)
        # 0^0 is 1, but even with alpha = 0 an evicted slot must not be drawn. Its successor comes later in `slots`.
        self._tree.set(self._places[slots], np.where(priorities > 0, priorities**self.priority_exponent, 0))


SAMPLERS: dict[str, type[Sampler]] = {"prioritized": PrioritizedSampler, "uniform": UniformSampler}
"""Samplers that come with the library."""


def sampler_class(name: str) -> type[Sampler]:
    """Return the class that `Replay.sampler` names: one of `SAMPLERS`, or `module:Class`; else raise CannotAct."""
    return SAMPLERS.get(name) or own_class("Replay.sampler", name, Sampler)  # type: ignore[type-abstract]
