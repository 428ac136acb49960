"""Collects requests from many streams into inference batches."""

import collections
import dataclasses
import math
import threading
import time
from collections.abc import Callable, Sequence

from seed_rl.specs import GroupLease
from seed_rl.transport.streams import Request


@dataclasses.dataclass
class _Group:
    """An open environment group."""

    size: int  # in environments
    awaited_since: float = math.inf  # time of an answer that no request has followed
    asked_at: float = 0.0
    turnaround: float = math.inf  # smoothed seconds from an answer to the next request; unknown at first
    expected: bool = False


class Batcher:
    """A first-come, first-served queue that hands out its requests in batches. Thread-safe, for one consumer.

    A batch is due once it is full, no other group is expected, or its oldest request has waited for `max_wait` seconds.
    A group is expected if it has been answered and usually comes back within `max_wait`, so slow and dead groups delay
    no others. Requests are never split, so none may hold more than the `max_batch_size` environments of a batch; the
    queue holds at most one per open group.
    """

    def __init__(self, max_batch_size: int, max_wait: float, clock: Callable[[], float] = time.monotonic):
        self.max_batch_size = max_batch_size
        self.max_wait = max_wait
        self.waiting_seconds = 0.0
        """Seconds that groups waited for answers, summed over groups."""
        self.stepping_seconds = 0.0
        """Seconds from an answer to the next request, summed over groups."""
        self._clock = clock
        self._requests: collections.deque[tuple[float, Request]] = collections.deque()
        self._size = 0
        self._groups: dict[int, _Group] = {}  # by the identity of the lease
        self._expected = 0
        self._last_expectation = 0.0
        self._changed = threading.Condition()
        self._closed = False

    def group_opened(self, lease: GroupLease) -> None:
        """Register a group, which will send one request at a time."""
        with self._changed:
            self._groups[id(lease)] = _Group(len(lease.env_ids))

    def hanging(self, seconds: float) -> int:
        """Return the number of environments in groups whose request has been awaited for that long."""
        with self._changed:
            until = self._clock() - seconds
            return sum(group.size for group in self._groups.values() if group.awaited_since <= until)

    def group_closed(self, lease: GroupLease) -> float:
        """Remove a group and its waiting request, if any; return the seconds for which a request has been awaited."""
        with self._changed:
            group = self._groups.pop(id(lease))
            self._expected -= group.expected
            kept = [entry for entry in self._requests if entry[1].lease is not lease]
            self._requests = collections.deque(kept)
            self._size = sum(len(request.env_ids) for _, request in kept)
            self._changed.notify()
            return max(0.0, self._clock() - group.awaited_since)

    def put(self, request: Request) -> None:
        """Append a request of an open group."""
        with self._changed:
            now = self._clock()
            group = self._groups[id(request.lease)]
            if group.awaited_since < math.inf:
                turnaround = now - group.awaited_since
                self.stepping_seconds += turnaround
                known = group.turnaround < math.inf
                group.turnaround = (group.turnaround + turnaround) / 2 if known else turnaround
            self._expected -= group.expected
            group.asked_at, group.awaited_since, group.expected = now, math.inf, False
            self._requests.append((now, request))
            self._size += len(request.env_ids)
            # Waking the consumer is expensive: do it only for the first request, which starts its clock, and for the
            # one that makes the batch due.
            if len(self._requests) == 1 or self._size >= self.max_batch_size or not self._expected:
                self._changed.notify()

    def answered(self, requests: Sequence[Request]) -> None:
        """Record that these requests have been answered, so their groups may come back."""
        with self._changed:
            now = self._clock()
            for request in requests:
                group = self._groups.get(id(request.lease))
                if group is not None:  # not closed in the meantime
                    group.awaited_since = now
                    self.waiting_seconds += now - group.asked_at
                    group.expected = group.turnaround < self.max_wait
                    self._expected += group.expected
            self._last_expectation = now

    def get(self) -> list[Request] | None:
        """Wait until a batch is due and return its requests, at least one; None once the batcher is closed."""
        with self._changed:
            while self._changed.wait_for(lambda: self._closed or self._requests) and not self._closed:
                # An expected group that isn't back within `max_wait` of its last answer is late.
                since = min(self._requests[0][0], self._last_expectation)
                remaining = since + self.max_wait - self._clock()
                if self._size >= self.max_batch_size or not self._expected or remaining <= 0:
                    return self._pop()
                self._changed.wait(remaining)
            return None

    def close(self) -> None:
        """Wake the consumer for the last time."""
        with self._changed:
            self._closed = True
            self._changed.notify()

    def _pop(self) -> list[Request]:
        batch: list[Request] = []
        room = self.max_batch_size
        while self._requests and len(self._requests[0][1].env_ids) <= room:
            request = self._requests.popleft()[1]
            room -= len(request.env_ids)
            batch.append(request)
        self._size -= self.max_batch_size - room
        return batch
