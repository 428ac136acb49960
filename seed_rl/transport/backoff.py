"""How long to wait before another try."""

from __future__ import annotations

import random


class Backoff:
    """Delays that double up to a cap, each shortened at random so that many clients don't return all at once."""

    def __init__(self, first: float = 0.5, cap: float = 30.0, factor: float = 2.0, *, rng: random.Random | None = None):
        """
        Args:
          first: longest first delay, seconds.
          cap: longest delay, seconds.
          factor: how the longest delay grows from one to the next, at least 1.
          rng: source of the jitter; by default one of its own.
        """
        if not 0 < first <= cap or factor < 1:
            raise ValueError(f"need 0 < first <= cap and factor >= 1, got first={first}, cap={cap}, factor={factor}")
        self._first = first
        self._cap = cap
        self._factor = factor
        self._random = rng or random.Random()
        self._longest = first

    def next(self) -> float:
        """Seconds to wait now: between half of the longest delay and all of it."""
        delay = self._longest * self._random.uniform(0.5, 1.0)
        self._longest = min(self._cap, self._longest * self._factor)
        return delay

    def reset(self) -> None:
        """Starts over, after a success."""
        self._longest = self._first

    def __iter__(self) -> Backoff:
        return self

    def __next__(self) -> float:
        return self.next()
