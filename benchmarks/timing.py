"""Timing: warmed-up, repeated measurements; results have the median and all repeats."""

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any


def spread(values: Sequence[float]) -> dict[str, Any]:
    """Build the form of a measured value in results: `median`, and all `repeats` in the order of measurement."""
    return {"median": statistics.median(values), "repeats": list(values)}


def spreads(repeats: Sequence[Mapping[str, float]]) -> dict[str, Any]:
    """Compute the `spread` of each of several values measured together, given as one mapping per repeat."""
    return {name: spread([repeat[name] for repeat in repeats]) for name in repeats[0]}


def ratio(numerators: Sequence[float], denominators: Sequence[float]) -> dict[str, Any]:
    """Compute the `spread` of ratios of values measured alternately."""
    return spread([a / b for a, b in zip(numerators, denominators, strict=True)])


def milliseconds(works: Mapping[str, Callable[[], object]], seconds: float, repeats: int) -> dict[str, list[float]]:
    """Measure milliseconds per call of each function, `repeats` times in `seconds`, after a call that does not count.

    The functions take turns within each repeat, so that drifts in the machine's speed affect all functions equally.
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
