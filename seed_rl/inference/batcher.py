"""Collects the requests of many streams into inference batches."""

from __future__ import annotations

import asyncio
import collections
import dataclasses
import threading
import time

import numpy as np

from seed_rl.specs import GroupLease
from seed_rl.types import EnvOutput


@dataclasses.dataclass(eq=False)
class Request:
    """The outputs of one environment group, waiting for actions."""

    lease: GroupLease
    first: bool
    """Whether the group starts a new run with this request."""
    output: EnvOutput
    """Fields [E, ...]."""
    actions: asyncio.Future
    """Gets int32 [E], on its own event loop."""

    def __post_init__(self):
        self.env_ids = np.array(self.lease.env_ids, np.int32)


class Batcher:
    """A first-come first-served queue that hands out its requests in batches. Thread-safe, one consumer.

    A batch is due as soon as it is full, or every open group waits in it (nobody else could join), or its oldest
    request has waited for `max_wait` seconds: a group that died or sleeps delays the others by `max_wait` at most.
    Requests are never split; the queue holds at most one per open group.
    """

    def __init__(self, max_batch_size: int, max_wait: float):
        """
        Args:
          max_batch_size: environments per batch; no request may hold more.
          max_wait: seconds.
        """
        self.max_batch_size = max_batch_size
        self.max_wait = max_wait
        self._requests: collections.deque[tuple[float, Request]] = collections.deque()
        self._size = 0
        self._open: set[GroupLease] = set()
        self._changed = threading.Condition()
        self._closed = False

    def group_opened(self, lease: GroupLease) -> None:
        """Counts a group that will send requests, one at a time."""
        with self._changed:
            self._open.add(lease)

    def group_closed(self, lease: GroupLease) -> None:
        """Forgets a group, and its request if one is waiting."""
        with self._changed:
            self._open.discard(lease)
            kept = [entry for entry in self._requests if entry[1].lease is not lease]
            self._requests = collections.deque(kept)
            self._size = sum(len(request.env_ids) for _, request in kept)
            self._changed.notify()

    def put(self, request: Request) -> None:
        """Appends a request."""
        with self._changed:
            self._requests.append((time.monotonic(), request))
            self._size += len(request.env_ids)
            self._changed.notify()

    def get(self) -> list[Request] | None:
        """Blocks until a batch is due: at least one request; None when the batcher was closed."""
        with self._changed:
            while not self._closed:
                if not self._requests:
                    self._changed.wait()
                elif self._size >= self.max_batch_size or len(self._requests) >= len(self._open):
                    return self._pop()
                else:
                    remaining = self._requests[0][0] + self.max_wait - time.monotonic()
                    if remaining <= 0:
                        return self._pop()
                    self._changed.wait(remaining)
            return None

    def close(self) -> None:
        """Wakes the consumer for the last time."""
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
