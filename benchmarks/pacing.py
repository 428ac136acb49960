"""Percentiles of latencies, and the pace of environments that are only imitated. Pure functions of numbers."""

from __future__ import annotations

import math

import numpy as np

from benchmarks.failures import MeasurementFailed

PERCENTILES = {"p50": 50.0, "p90": 90.0, "p99": 99.0, "max": 100.0}


def percentiles(seconds: np.ndarray) -> dict[str, float]:
    """p50, p90, p99 and max in milliseconds; each is a latency that occurred, the smallest that so many don't exceed.

    Raises:
      MeasurementFailed: there are none.
    """
    if not len(seconds):
        raise MeasurementFailed("no observation was answered in the time of the measurement: there are no percentiles")
    values = np.percentile(seconds, list(PERCENTILES.values()), method="inverted_cdf")
    return {name: 1000 * float(value) for name, value in zip(PERCENTILES, values, strict=True)}


def as_if_clocked(seconds: np.ndarray, interval: float) -> np.ndarray:
    """The latencies that a sender on a clock, who doesn't wait for answers, would have seen.

    A group of environments sends nothing while it waits: a pause of a second is one slow observation to it, not one
    for each `interval` in which it would have sent another. This adds those that were not sent: for a latency l, also
    l - interval, l - 2 interval, ... > 0.

    Args:
      seconds: float [n], as seen.
      interval: seconds between the observations of a stream; 0 adds nothing.
    """
    if interval <= 0 or not len(seconds):
        return seconds
    missed = np.maximum(np.ceil(seconds / interval).astype(np.int64) - 1, 0)
    which = np.repeat(np.arange(len(seconds)), missed)
    first = np.cumsum(missed) - missed
    number = np.arange(len(which)) - first[which] + 1
    return np.concatenate([seconds, seconds[which] - number * interval])


def step_times(rng: np.random.Generator, step_seconds: float, jitter: float, count: int) -> np.ndarray:
    """Seconds that each of `count` steps takes, uniform in step_seconds * [1 - jitter, 1 + jitter]."""
    return step_seconds * rng.uniform(1 - jitter, 1 + jitter, count)


def step_for_rate(streams: int, group_size: int, rate: float, latency: float) -> float:
    """The step time, seconds, with which streams that wait `latency` seconds for each answer offer a rate.

    Args:
      streams: groups of environments.
      group_size: environments of each.
      rate: observations/s of all of them.
      latency: seconds, the mean.

    Returns:
      0 where they can't: the latency alone takes longer.
    """
    return max(0.0, streams * group_size / rate - latency)


def rate_at(streams: int, group_size: int, step_seconds: float, latency: float) -> float:
    """Observations/s of streams that step for so long and then wait for so long."""
    cycle = step_seconds + latency
    return streams * group_size / cycle if cycle > 0 else math.inf
