"""Which slots of an `UnrollStore` are free, and which hold finished unrolls: bookkeeping of small integers."""

from __future__ import annotations

import collections
import threading

import numpy as np


class SlotPool:
    """The free slots of a store. Thread-safe; never blocks."""

    def __init__(self, num_slots: int):
        self.num_slots = num_slots
        self.versions = np.zeros(num_slots, np.int64)
        """int64 [num_slots]: learner updates at the time the unroll in each slot was begun."""
        self.ends = np.zeros(num_slots, np.int64)
        """int64 [num_slots]: steps of the unroll in each slot in which an episode ends, so that no transition follows;
        without those that the next unroll repeats."""
        self._free = list(range(num_slots - 1, -1, -1))
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._free)

    def acquire(self, count: int, version: int = 0) -> np.ndarray:
        """Takes `count` free slots, int32 [count], for unrolls begun after `version` learner updates.

        Raises:
          RuntimeError: fewer are free. The store is sized so that this cannot happen while back-pressure is heeded.
        """
        with self._lock:
            if count > len(self._free):
                raise RuntimeError(f"{count} slots asked for, {len(self._free)} of {self.num_slots} are free")
            slots = np.array([self._free.pop() for _ in range(count)], np.int32)
        self.versions[slots] = version
        self.ends[slots] = 0
        return slots

    def release(self, slots: np.ndarray) -> None:
        """Gives slots back."""
        with self._lock:
            self._free.extend(slots.tolist())


class UnrollQueue:
    """A first-in first-out queue of finished unrolls (their slots), between inference and the learner.

    Its bound is kept by back-pressure: before a step that finishes unrolls, inference waits in `wait_for_room` until
    fewer than `capacity` unrolls are queued, so that at most `capacity` - 1 plus one inference batch ever are.
    """

    def __init__(self, capacity: int):
        self.capacity = capacity
        self._slots: collections.deque[int] = collections.deque()
        self._changed = threading.Condition()
        self._closed = False

    def __len__(self) -> int:
        return len(self._slots)

    @property
    def fill(self) -> float:
        """Unrolls in the queue over its capacity."""
        return len(self) / self.capacity

    def wait_for_room(self) -> bool:
        """Blocks until fewer than `capacity` unrolls are queued; False when the queue was closed instead."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed or len(self._slots) < self.capacity)
            return not self._closed

    def put(self, slots: np.ndarray) -> None:
        """Appends finished unrolls."""
        with self._changed:
            self._slots.extend(slots.tolist())
            self._changed.notify_all()

    def take(self, count: int, timeout: float, at_least: int | None = None) -> np.ndarray | None:
        """Removes the oldest unrolls.

        Args:
          count: maximum number.
          timeout: seconds to wait for `at_least` of them.
          at_least: minimum number; None: `count`.

        Returns:
          int32 [at_least .. count]; None when too few arrive in time or the queue is closed.
        """
        needed = count if at_least is None else at_least
        with self._changed:
            arrived = self._changed.wait_for(lambda: self._closed or len(self._slots) >= needed, timeout)
            if self._closed or not arrived:
                return None
            taken = min(count, len(self._slots))
            slots = np.array([self._slots.popleft() for _ in range(taken)], np.int32)
            self._changed.notify_all()
            return slots

    def close(self) -> None:
        """Wakes all waiting threads; the queue stays closed."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
