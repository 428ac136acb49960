"""Statistics over runs, as Agarwal et al. 2021 (arXiv:2108.13264) recommend for few seeds.

They take scores by task: those of each game, normalised if there are several, or of the only one. Intervals are of
95 %, by the percentile bootstrap, stratified: runs are drawn anew within each task. scipy computes them; the authors'
package rliable, without a release since 2024, would add ten more dependencies to the same two functions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

_RESAMPLES = 2_000
_SEED = 0  # the same runs have the same interval each time


class Estimate(NamedTuple):
    """A statistic over runs."""

    value: np.ndarray
    """float64 [...]."""
    low: np.ndarray
    """Of its 95 % interval, shaped alike; NaN if a task has a single run."""
    high: np.ndarray
    """Likewise."""


def interquartile_mean(scores: Sequence[np.ndarray]) -> Estimate:
    """The mean of the middle half of all scores; with fewer than four, that of all.

    Args:
      scores: float [R, ...] of each task's R runs.
    """
    from scipy import stats  # late: it takes a second to load

    return _estimate(lambda all_scores: stats.trim_mean(all_scores, 0.25, axis=0), scores)


def performance_profile(scores: Sequence[np.ndarray], thresholds: np.ndarray) -> Estimate:
    """The share of runs with a score above each threshold.

    Args:
      scores: float [R] of each task's R runs.
      thresholds: float [N].
    """
    above = [(np.asarray(own)[:, None] > thresholds).astype(float) for own in scores]
    return _estimate(lambda all_scores: all_scores.mean(axis=0), above)


def _estimate(statistic: Callable[[np.ndarray], np.ndarray], scores: Sequence[np.ndarray]) -> Estimate:
    from scipy import stats

    value = np.asarray(statistic(np.concatenate(scores)))
    if min(map(len, scores)) < 2:
        return Estimate(value, np.full_like(value, np.nan), np.full_like(value, np.nan))

    def of_samples(*samples: np.ndarray, axis: int) -> np.ndarray:
        return statistic(np.moveaxis(np.concatenate(samples, axis=axis), axis, 0))

    found = stats.bootstrap(
        scores, of_samples, n_resamples=_RESAMPLES, axis=0, vectorized=True, method="percentile", rng=_SEED
    )
    return Estimate(value, found.confidence_interval.low, found.confidence_interval.high)
