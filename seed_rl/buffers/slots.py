"""Bookkeeping of the slots of an `UnrollStore`: which are free, and which hold finished unrolls."""

import collections
import threading

import numpy as np


class SlotPool:
    """The free slots of a store. Thread-safe; never blocks."""

    def __init__(self, num_slots: int):
        self.num_slots = num_slots
        self.versions = np.zeros(num_slots, np.int64)
        """int64 [num_slots]: number of learner updates when the unroll in each slot began."""
        self.ends = np.zeros(num_slots, np.int64)
        """int64 [num_slots]: number of steps in each slot's unroll at which an episode ends, so that no transition
        follows, not counting steps that the next unroll repeats."""
        self._free = list(range(num_slots - 1, -1, -1))
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._free)

    def acquire(self, count: int, version: int = 0) -> np.ndarray:
        """Take `count` free slots, int32 [count], for unrolls that begin after `version` learner updates."""
        with self._lock:
            if count > len(self._free):  # the store is sized so that back-pressure leaves enough
                raise RuntimeError(f"{count} slots requested, {len(self._free)} of {self.num_slots} are free")
            slots = np.array([self._free.pop() for _ in range(count)], np.int32)
        self.versions[slots] = version
        self.ends[slots] = 0
        return slots

    def release(self, slots: np.ndarray) -> None:
        """Return slots to the pool."""
        with self._lock:
            self._free.extend(slots.tolist())


class UnrollQueue:
    """A first-in first-out queue of finished unrolls (their slots) from inference to the learner.

    Back-pressure bounds it: before a step that finishes unrolls, inference waits in `wait_for_room` until fewer than
    `capacity` unrolls are queued, so the queue never holds more than `capacity` - 1 unrolls plus one inference batch.
    """

    def __init__(self, capacity: int):
        self.capacity = capacity
        self._slots: collections.deque[int] = collections.deque()
        self._changed = threading.Condition()
        self._closed = False
        self._demand = 0  # unrolls for which `take` is waiting

    def __len__(self) -> int:
        return len(self._slots)

    @property
    def fill(self) -> float:
        """Number of unrolls in the queue divided by its capacity."""
        return len(self) / self.capacity

    def wait_for_room(self) -> bool:
        """Block until fewer than `capacity` unrolls are queued; return False if the queue is closed."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed or len(self._slots) < self.capacity)
            return not self._closed

    def put(self, slots: np.ndarray) -> None:
        """Append finished unrolls."""
        with self._changed:
            self._slots.extend(slots.tolist())
            self._changed.notify_all()

    def take(self, count: int, timeout: float) -> np.ndarray | None:
        """Remove the oldest unrolls, int32 [count]; None if too few come within `timeout` s or the queue is closed."""
        with self._changed:
            self._demand = count
            self._changed.notify_all()
            arrived = self._changed.wait_for(lambda: self._closed or len(self._slots) >= count, timeout)
            self._demand = 0
            if self._closed or not arrived:
                return None
            slots = np.array([self._slots.popleft() for _ in range(count)], np.int32)
            self._changed.notify_all()
            return slots

    def wait_for_demand(self) -> bool:
        """Block until `take` waits for more unrolls than are queued; return False if the queue is closed."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed or len(self._slots) < self._demand)
            return not self._closed

    def close(self) -> None:
        """Close the queue for good and wake all waiting threads."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
