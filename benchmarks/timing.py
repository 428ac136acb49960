"""How times are measured: warmed up and repeated; a result holds the median and every repeat."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any


def spread(values: Sequence[float]) -> dict[str, Any]:
    """A measured value as results hold it: `median`, and all `repeats` in the order of their measurement."""
    return {"median": statistics.median(values), "repeats": list(values)}


def spreads(repeats: Sequence[Mapping[str, float]]) -> dict[str, Any]:
    """The `spread` of each of several values that were measured together, one mapping for each repeat."""
    return {name: spread([repeat[name] for repeat in repeats]) for name in repeats[0]}


def ratio(numerators: Sequence[float], denominators: Sequence[float]) -> dict[str, Any]:
    """The `spread` of the ratios of values that were measured side by side."""
    return spread([a / b for a, b in zip(numerators, denominators, strict=True)])


def milliseconds(works: Mapping[str, Callable[[], object]], seconds: float, repeats: int) -> dict[str, list[float]]:
    """Milliseconds per call of each function, `repeats` times.

    The functions take turns within each repeat, so that a machine whose speed drifts is as fast for one as for another.

    Args:
      works: functions by name; each is called once before anything is measured.
      seconds: for all repeats of one function together; each repeat makes at least one call.
      repeats: measurements of each.
    """
    for work in works.values():
        work()
    result: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(repeats):
        for name, work in works.items():
            started, calls = time.monotonic(), 0
            while (elapsed := time.monotonic() - started) < seconds / repeats or not calls:
                work()
                calls += 1
            result[name].append(1e3 * elapsed / calls)
    return result
