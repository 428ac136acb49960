"""Batches of which several devices that act have an equal part each."""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np

from seed_rl.learner.sources import Batch, Source


class JoinedSource(Source):
    """The sources of several devices that act, as one: an equal part of each batch is from each of them.

    They hold what was taken apart, so that it can't be saved.
    """

    def __init__(self, sources: Sequence[Source]):
        """Args: sources: one at least, in the order of the devices that their batches go to."""
        self._sources = sources
        self._batches: list[Batch | None] = [None] * len(sources)

    @property
    def taken(self) -> int:
        """Finished unrolls taken from all queues so far."""
        return sum(source.taken for source in self._sources)

    def next(self, timeout: float) -> Batch | None:
        """See `Source.next`. Batches of some devices wait here for those of the others."""
        deadline = time.monotonic() + timeout
        for index, source in enumerate(self._sources):
            if self._batches[index] is None:
                self._batches[index] = source.next(max(0.0, deadline - time.monotonic()))
        batches = [batch for batch in self._batches if batch is not None]
        if len(batches) < len(self._sources):
            return None
        self._batches = [None] * len(self._sources)
        weights = [batch.importance_weights for batch in batches if batch.importance_weights is not None]
        return Batch(
            [part for batch in batches for part in batch.parts],
            np.concatenate([batch.versions for batch in batches]),
            np.concatenate(weights) if weights else None,
        )

    def write_back(self, priorities: np.ndarray) -> None:
        """See `Source.write_back`."""
        for source, own in zip(self._sources, np.split(priorities, len(self._sources)), strict=True):
            source.write_back(own)

    def gauges(self) -> dict[str, float]:
        """The sum of sizes, the mean of all else."""
        rows = [source.gauges() for source in self._sources]
        names = set.intersection(*map(set, rows))
        return {
            name: float((np.sum if name == "replay/size" else np.mean)([row[name] for row in rows])) for name in names
        }
