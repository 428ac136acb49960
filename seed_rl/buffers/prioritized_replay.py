"""Prioritized experience replay of sequences: which slots of an `UnrollStore` are kept, and which are drawn.

Schaul et al., "Prioritized Experience Replay" (arXiv:1511.05952), with one transition replaced by one stored sequence
as in Kapturowski et al., "Recurrent Experience Replay in Distributed Reinforcement Learning" (R2D2, ICLR 2019).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from seed_rl.buffers.sum_tree import SumTree

PRIORITY_FLOOR = 1e-6
"""Smaller priorities count as this one, so that every sequence can be drawn."""

# Priorities come from float32 losses. With this bound their float64 sum cannot overflow.
_LARGEST_PRIORITY = float(np.finfo(np.float32).max)


class Sample(NamedTuple):
    """B sequences drawn from a replay."""

    slots: np.ndarray
    """int32 [B]: slots of the store; the same one may occur more than once."""
    probabilities: np.ndarray
    """float64 [B]: P(i), with which each draw returns that slot."""
    weights: np.ndarray
    """float32 [B]: importance weights of the losses; the largest is 1."""


class PrioritizedReplay:
    """The `capacity` newest finished sequences by slot number, drawn in proportion to a power of their priorities.

        P(i) = p_i^alpha / sum_k p_k^alpha,   w_i = (N P(i))^-beta / max over the batch

    with N sequences inside. It holds numbers, not data: inserting hands a slot over to it, and evicting gives the slot
    back to whoever owns the free ones. A slot is inside at most once. Not thread-safe: it belongs to the learner's
    thread. A call that raises has changed nothing.
    """

    def __init__(
        self,
        capacity: int,
        num_slots: int,
        *,
        priority_exponent: float = 0.9,
        importance_exponent: float = 0.6,
        seed: int,
    ):
        """
        Args:
          capacity: the most sequences inside.
          num_slots: slots of the store, at least `capacity`; those in progress are among them.
          priority_exponent: alpha in [0, 1]: 0 draws uniformly, 1 in proportion to the priorities.
          importance_exponent: beta in [0, 1]: 0 corrects nothing, 1 makes the losses' expectation that of uniform
            draws.
          seed: of the draws.

        Raises:
          ValueError: an argument is out of its range.
        """
        if not 1 <= capacity <= num_slots:
            raise ValueError(f"capacity must be in 1 .. {num_slots} (the number of slots), got {capacity}")
        for name, exponent in (("priority", priority_exponent), ("importance", importance_exponent)):
            if not 0 <= exponent <= 1:
                raise ValueError(f"{name}_exponent must be in [0, 1], got {exponent}")
        self.capacity = capacity
        self.num_slots = num_slots
        self._priority_exponent = priority_exponent
        self._importance_exponent = importance_exponent
        self._generator = np.random.Generator(np.random.PCG64(seed))
        # A ring: the `len(self)` slots from `_oldest` on, oldest first.
        self._order = np.zeros(capacity, np.int32)
        self._oldest = 0
        self._size = 0
        # By slot: p, and p^alpha in the tree. Both are zero where the slot is not inside, and nowhere else.
        self._priorities = np.zeros(num_slots, np.float64)
        self._tree = SumTree(num_slots)

    def __len__(self) -> int:
        """Sequences inside."""
        return self._size

    def insert(self, slots: np.ndarray, priorities: np.ndarray) -> np.ndarray:
        """Takes over finished sequences, the first being the oldest.

        Args:
          slots: int32 [n], n <= `capacity`.
          priorities: float [n], not negative; `PRIORITY_FLOOR` at least counts.

        Returns:
          int32 [m]: the slots evicted to make room, oldest first.

        Raises:
          ValueError: n exceeds the capacity; a slot is out of range, given twice or already inside; a priority is
            negative, not finite or beyond float32.
        """
        slots, priorities = self._checked(slots, priorities)
        if len(slots) > self.capacity:
            raise ValueError(f"{len(slots)} sequences do not fit a replay of {self.capacity}")
        self._refuse(slots, self._priorities[slots] > 0, "is already in the replay")
        in_order = np.sort(slots)
        self._refuse(in_order[1:], in_order[1:] == in_order[:-1], "is given twice")

        num_evicted = max(0, self._size + len(slots) - self.capacity)
        evicted = self._order[self._ring(0, num_evicted)]
        self._oldest = (self._oldest + num_evicted) % self.capacity
        self._size -= num_evicted
        self._order[self._ring(self._size, len(slots))] = slots
        self._size += len(slots)
        self._set(np.concatenate([evicted, slots]), np.concatenate([np.zeros(num_evicted), priorities]))
        return evicted

    def sample(self, count: int) -> Sample:
        """Draws `count` sequences independently, with replacement.

        Raises:
          ValueError: the replay is empty, or `count` is below 1.
        """
        if count < 1:
            raise ValueError(f"count must be at least 1, got {count}")
        if not self._size:
            raise ValueError("there is nothing to draw from: the replay is empty")
        total = self._tree.total
        slots = self._tree.find(self._generator.random(count) * total)
        probabilities = self._tree.get(slots) / total
        # The largest weight is that of the smallest probability; N cancels.
        weights = (probabilities / np.min(probabilities)) ** -self._importance_exponent
        return Sample(slots.astype(np.int32), probabilities, weights.astype(np.float32))

    def update(self, slots: np.ndarray, priorities: np.ndarray) -> None:
        """Gives sequences that are inside new priorities.

        Args:
          slots: int32 [n]; of a slot that occurs more than once, the last priority counts.
          priorities: float [n], as in `insert`.

        Raises:
          ValueError: a slot is out of range or not inside; a priority is negative, not finite or beyond float32.
        """
        slots, priorities = self._checked(slots, priorities)
        self._refuse(slots, self._priorities[slots] == 0, "is not in the replay")
        self._set(slots, priorities)

    def get_state(self) -> dict[str, np.ndarray]:
        """All that `set_state` needs, as arrays that can be saved without pickle.

        Returns:
          slots: int32 [N], oldest first.
          priorities: float64 [N], theirs, not raised to any power.
          generator: uint8 [any], the random generator's state as JSON text.
        """
        slots = self._order[self._ring(0, self._size)]
        generator = json.dumps(self._generator.bit_generator.state).encode()
        return {
            "slots": slots,
            "priorities": self._priorities[slots],
            "generator": np.frombuffer(generator, np.uint8).copy(),
        }

    def set_state(self, state: Mapping[str, np.ndarray]) -> None:
        """Replaces what is inside by a state of `get_state`, also that of a replay with another capacity.

        Raises:
          ValueError: the state is not one of a replay, or does not fit into this one.
        """
        expected = {"slots", "priorities", "generator"}
        if set(state) != expected:
            raise ValueError(f"the state of a replay has {sorted(expected)}, not {sorted(state)}")
        restored = PrioritizedReplay(
            self.capacity,
            self.num_slots,
            priority_exponent=self._priority_exponent,
            importance_exponent=self._importance_exponent,
            seed=0,
        )
        restored.insert(state["slots"], state["priorities"])
        restored._generator.bit_generator.state = json.loads(np.asarray(state["generator"], np.uint8).tobytes())
        vars(self).update(vars(restored))

    def _ring(self, start: int, count: int) -> np.ndarray:
        """int64 [count]: where in `_order` the sequences from the `start`-th oldest on stand."""
        return (self._oldest + start + np.arange(count)) % self.capacity

    def _set(self, slots: np.ndarray, priorities: np.ndarray) -> None:
        """Priorities float64 [n] of `slots`; zero where the slot is no longer inside."""
        self._priorities[slots] = priorities
        # 0^0 is 1, but what is not inside must not be drawn with alpha = 0 either.
        self._tree.set(slots, np.where(priorities > 0, priorities**self._priority_exponent, 0))

    def _checked(self, slots: np.ndarray, priorities: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The arguments as int32 [n] and, floored, as float64 [n]."""
        slots, priorities = np.asarray(slots), np.asarray(priorities, np.float64)
        if slots.ndim != 1 or slots.shape != priorities.shape:
            raise ValueError(f"slots [n] and priorities [n] expected, got {slots.shape} and {priorities.shape}")
        if slots.size and not np.issubdtype(slots.dtype, np.integer):
            raise ValueError(f"slots must be integers, got {slots.dtype}")
        self._refuse(slots, (slots < 0) | (slots >= self.num_slots), f"is not in 0 .. {self.num_slots - 1}")
        bad = ~((priorities >= 0) & (priorities <= _LARGEST_PRIORITY))
        if np.any(bad):
            raise ValueError(
                f"priority {priorities[bad][0]} of slot {slots[bad][0]} is not a finite number of at least 0"
            )
        return slots.astype(np.int32), np.maximum(priorities, PRIORITY_FLOOR)

    @staticmethod
    def _refuse(slots: np.ndarray, bad: np.ndarray, what: str) -> None:
        if np.any(bad):
            raise ValueError(f"slot {slots[bad][0]} {what}")
