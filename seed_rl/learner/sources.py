"""Where the learner's batches come from: finished unrolls in the order they came."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import tensorflow as tf

from seed_rl.buffers.slots import SlotPool, UnrollQueue
from seed_rl.buffers.unroll_store import UnrollStore
from seed_rl.types import Unroll


class Batch(NamedTuple):
    """Unrolls for one update."""

    unroll: Unroll
    """Fields [L, B, ...]."""
    versions: np.ndarray
    """int64 [B]: learner updates at the time each unroll was begun."""


class FifoSource:
    """Batches of unrolls, each used once."""

    def __init__(
        self, store: UnrollStore, pool: SlotPool, queue: UnrollQueue, batch_size: int, slot_versions: np.ndarray
    ):
        """
        Args:
          store: where the unrolls are.
          pool: where their slots go.
          queue: where finished ones come from.
          batch_size: B.
          slot_versions: int64 [number of slots], kept by whoever begins unrolls: learner updates at that time.
        """
        self._store = store
        self._pool = pool
        self._queue = queue
        self._batch_size = batch_size
        self._slot_versions = slot_versions

    def next(self, timeout: float) -> Batch | None:
        """The next batch, copied out of the store; None when none is complete within `timeout` seconds.

        The slots are free when this returns: inference fills them while the learner works on the copy.
        """
        slots = self._queue.take(self._batch_size, timeout)
        if slots is None:
            return None
        batch = Batch(self._store.read(tf.constant(slots)), self._slot_versions[slots])
        self._pool.release(slots)
        return batch
