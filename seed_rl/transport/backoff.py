"""Exponential back-off."""

from __future__ import annotations

import random


class Backoff:
    """Delays that double up to a cap, with jitter so that many clients don't return at the same moment."""

    def __init__(self, first: float = 0.5, cap: float = 30.0):
        """
        Args:
          first: longest first delay, seconds.
          cap: longest delay, seconds.
        """
        self._first = first
        self._cap = cap
        self._longest = first

    def next(self) -> float:
        """Seconds to wait now: at random between half of the longest delay and all of it."""
        delay = self._longest * random.uniform(0.5, 1.0)
        self._longest = min(self._cap, self._longest * 2)
        return delay

    def reset(self) -> None:
        """Starts over, after a success."""
        self._longest = self._first
