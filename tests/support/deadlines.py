"""How long tests wait for what should happen: longer on a machine that is slow or busy, which is no error."""

import time

_SECONDS = 0.08  # for the loop below, on a core of 2025 that does nothing else


def _slowness() -> float:
    """How many times longer than on a fast and idle core a computation takes here and now."""
    began = time.perf_counter()
    sum(number * number for number in range(1_000_000))
    return (time.perf_counter() - began) / _SECONDS


_FACTOR = max(3.0, 2.0 * _slowness())  # other work may begin after this measurement


def within(seconds: float) -> float:
    """The time to wait for what takes less than `seconds` on a fast and idle machine."""
    return seconds * _FACTOR
