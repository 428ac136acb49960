"""Statistics over runs, as Agarwal et al. 2021 (arXiv:2108.13264) recommend for few seeds.

They take scores by task: those of each game, normalised if there are several, or of the only one. Intervals are of
95 %, by the percentile bootstrap, stratified: runs are drawn anew within each task, to say what other seeds would give.
With `drawn="tasks"`, for single runs, whole tasks are drawn anew, to say what other tasks would give. scipy computes
them; the authors' package rliable, without a release since 2024, would add ten more dependencies to the same functions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple, TypeAlias

import numpy as np

_RESAMPLES = 2_000
_SEED = 0  # the same runs have the same interval each time

Scores: TypeAlias = Sequence[np.ndarray]
"""float [R, ...] of each task's R runs."""
Drawn: TypeAlias = Literal["runs", "tasks"]
"""What is drawn anew for an interval."""


class Estimate(NamedTuple):
    """A statistic over runs."""

    value: np.ndarray
    """float64 [...]."""
    low: np.ndarray
    """Of its 95 % interval, shaped alike; NaN if a task whose runs are drawn has a single one."""
    high: np.ndarray
    """Likewise."""


def interquartile_mean(scores: Scores, drawn: Drawn = "runs") -> Estimate:
    """The mean of the middle half of all scores; with fewer than four, that of all."""
    from scipy import stats  # late: it takes a second to load

    return _estimate(lambda tasks: stats.trim_mean(np.concatenate(tasks), 0.25, axis=0), scores, drawn)


def median(scores: Scores, drawn: Drawn = "runs") -> Estimate:
    """The median over tasks of the mean of each one's runs."""
    return _estimate(lambda tasks: np.median([own.mean(axis=0) for own in tasks], axis=0), scores, drawn)


def performance_profile(scores: Scores, thresholds: np.ndarray, drawn: Drawn = "runs") -> Estimate:
    """The share of runs with a score above each threshold.

    Args:
      scores: float [R] of each task's R runs.
      thresholds: float [N].
      drawn: for the interval.
    """
    above = [(np.asarray(own)[:, None] > thresholds).astype(float) for own in scores]
    return _estimate(lambda tasks: np.concatenate(tasks).mean(axis=0), above, drawn)


def _estimate(statistic: Callable[[Scores], np.ndarray], scores: Scores, drawn: Drawn) -> Estimate:
    value = np.asarray(statistic(scores))
    if (len(scores) if drawn == "tasks" else min(map(len, scores))) < 2:
        return Estimate(value, np.full_like(value, np.nan), np.full_like(value, np.nan))
    if drawn == "tasks":
        draws = np.random.default_rng(_SEED).integers(len(scores), size=(_RESAMPLES, len(scores)))
        again = [statistic([scores[task] for task in draw]) for draw in draws]
        return Estimate(value, *np.quantile(again, [0.025, 0.975], axis=0))

    from scipy import stats

    def of_samples(*samples: np.ndarray, axis: int) -> np.ndarray:
        return statistic([np.moveaxis(sample, axis, 0) for sample in samples])

    found = stats.bootstrap(
        scores, of_samples, n_resamples=_RESAMPLES, axis=0, vectorized=True, method="percentile", rng=_SEED
    )
    return Estimate(value, found.confidence_interval.low, found.confidence_interval.high)
