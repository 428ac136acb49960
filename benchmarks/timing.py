"""How rates and times are measured: warmed up, repeated, with the median and every repeat in the result."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any


def spread(values: Sequence[float]) -> dict[str, Any]:
    """A measured value as results hold it: `median`, and all `repeats` in the order they were measured."""
    return {"median": statistics.median(values), "repeats": list(values)}


def spreads(repeats: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Several repeats of a measurement of many values, at least one: the `spread` of each number, the rest as in the
    first of them."""

    def merged(name: str, value: Any) -> Any:
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        return spread([repeat[name] for repeat in repeats]) if is_number else value

    return {name: merged(name, value) for name, value in repeats[0].items()}


def medians(values: Mapping[str, Any]) -> dict[str, Any]:
    """The values with medians in place of their `spread`s; the inverse of `spreads` for a single repeat."""
    return {
        name: value["median"] if isinstance(value, Mapping) and "median" in value else value
        for name, value in values.items()
    }


def rates(work: Callable[[], int], seconds: float, repeats: int) -> list[float]:
    """Units per second that `work` does, `repeats` times: it returns how many units one call did.

    Args:
      work: called once before anything is measured, then again and again.
      seconds: of all repeats together.
      repeats: parts that the time is divided into; each has one call at least.
    """
    work()
    result = []
    for _ in range(repeats):
        started, units = time.monotonic(), 0
        while (elapsed := time.monotonic() - started) < seconds / repeats or not units:
            units += work()
        result.append(units / elapsed)
    return result


def rate(work: Callable[[], int], seconds: float, repeats: int = 3) -> float:
    """The median of `rates`."""
    return statistics.median(rates(work, seconds, repeats))


def milliseconds(works: Mapping[str, Callable[[], object]], seconds: float, repeats: int) -> dict[str, list[float]]:
    """Milliseconds per call of several things that are to be compared, `repeats` times each.

    They take turns within each repeat, so that a machine whose speed drifts is as fast for one as for the other.

    Args:
      works: what is called, by name; each is called once before anything is measured.
      seconds: of all repeats of one of them together.
      repeats: see `rates`.
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


def ratio(numerators: Sequence[float], denominators: Sequence[float]) -> dict[str, Any]:
    """The `spread` of the ratios of values that were measured side by side."""
    return spread([a / b for a, b in zip(numerators, denominators, strict=True)])
