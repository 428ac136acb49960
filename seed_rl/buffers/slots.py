"""Bookkeeping of an `UnrollStore`: which slots and places are free, and which slots hold finished unrolls."""

import collections
import threading

import numpy as np


class SlotPool:
    """The slots and places of a store: a slot for each unroll, a place for each step. Thread-safe; never blocks.

    A place is in use as long as an environment that may still need its step, or an unroll, refers to it.
    """

    def __init__(self, num_slots: int, num_places: int = 0, window: int = 0):
        """An unroll refers to `window` places, for a step that it lacks to the spare one, number `num_places`."""
        self.num_slots, self.num_places = num_slots, num_places
        self.versions = np.zeros(num_slots, np.int64)
        """int64 [num_slots]: number of learner updates when the unroll in each slot began."""
        self.ends = np.zeros(num_slots, np.int64)
        """int64 [num_slots]: number of steps in each slot's unroll at which an episode ends, so that no transition
        follows, not counting steps that the next unroll repeats."""
        self.places = np.full((num_slots + 1, window), num_places, np.int32)
        """int32 [num_slots + 1, window]: the places of the steps of the finished unroll in each slot."""
        self._free = list(range(num_slots - 1, -1, -1))
        self._free_places = np.arange(num_places - 1, -1, -1, dtype=np.int32)
        self.num_free_places = num_places
        """Number of places without a user."""
        self._users = np.zeros(num_places + 1, np.int32)
        self._users[num_places] = 1  # the spare place is never free
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

    def acquire_places(self, count: int) -> np.ndarray:
        """Take `count` free places, int32 [count], each for one user."""
        with self._lock:
            left = self.num_free_places - count
            if left < 0:
                raise RuntimeError(f"{count} places requested, {left + count} of {self.num_places} are free")
            places = self._free_places[left : left + count].copy()
            self.num_free_places = left
            self._users[places] = 1
        return places

    def finish(self, slots: np.ndarray, places: np.ndarray) -> None:
        """Let the finished unrolls in `slots`, int32 [n], use their `places`, int32 [n, window], too."""
        with self._lock:
            self.places[slots] = places
            np.add.at(self._users, places.ravel(), 1)

    def release(self, slots: np.ndarray) -> None:
        """Return slots to the pool, and the places that only they used."""
        with self._lock:
            self._leave(self.places[slots].ravel())
            self.places[slots] = self.num_places
            self._free.extend(slots.tolist())

    def release_places(self, places: np.ndarray) -> None:
        """Return `places`, int32 [n], of one user each; free are those that have no other."""
        with self._lock:
            self._leave(places)

    def _leave(self, places: np.ndarray) -> None:
        places = places[places != self.num_places]
        np.subtract.at(self._users, places, 1)
        freed = np.unique(places[self._users[places] == 0])
        self._free_places[self.num_free_places : self.num_free_places + len(freed)] = freed
        self.num_free_places += len(freed)


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
