"""How rates are measured."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable


def rate(work: Callable[[], int], seconds: float, repeats: int = 3) -> float:
    """Units per second that `work` does: it returns how many one call did. Median of `repeats` after a warm-up call."""
    work()
    rates = []
    for _ in range(repeats):
        started, units = time.monotonic(), 0
        while (elapsed := time.monotonic() - started) < seconds / repeats:
            units += work()
        rates.append(units / elapsed)
    return statistics.median(rates)
