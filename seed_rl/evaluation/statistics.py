"""Statistics over runs, as recommended for few seeds by Agarwal et al. 2021 (arXiv:2108.13264).

They take the scores of each task, normalised if there are several tasks. The 95 % confidence intervals come from a
stratified percentile bootstrap, which resamples runs within each task and so estimates variation over seeds. With
`drawn="tasks"`, for single runs, whole tasks are resampled, which estimates variation over tasks. scipy computes them:
the authors' package rliable, last released in 2024, would add ten dependencies for the same functions.
"""

from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple, TypeAlias

import numpy as np

_RESAMPLES = 2_000
_SEED = 0  # makes intervals reproducible

Scores: TypeAlias = Sequence[np.ndarray]
"""Scores of the R runs of each task, float [R, ...]."""
Drawn: TypeAlias = Literal["runs", "tasks"]
"""What the bootstrap resamples."""


class Estimate(NamedTuple):
    """A statistic over runs and the bounds of its 95 % confidence interval; float64 arrays of the same shape [...].

    The bounds are NaN if a task to resample has only one run, or if there is only one task.
    """

    value: np.ndarray
    low: np.ndarray
    high: np.ndarray


def interquartile_mean(scores: Scores, drawn: Drawn = "runs") -> Estimate:
    """Compute the mean of the middle half of all scores, or of all scores if there are fewer than four."""
    from scipy import stats  # late import: takes a second

    return _estimate(lambda tasks: stats.trim_mean(np.concatenate(tasks), 0.25, axis=0), scores, drawn)


def median(scores: Scores, drawn: Drawn = "runs") -> Estimate:
    """Compute the median over tasks of each task's mean."""
    return _estimate(lambda tasks: np.median([own.mean(axis=0) for own in tasks], axis=0), scores, drawn)


def performance_profile(scores: Scores, thresholds: np.ndarray, drawn: Drawn = "runs") -> Estimate:
    """Compute the share of runs, with scores float [R] of each task, above each of the thresholds, float [N]."""
    above = [(np.asarray(own)[:, None] > thresholds).astype(float) for own in scores]
    return _estimate(lambda tasks: np.concatenate(tasks).mean(axis=0), above, drawn, batch=100)  # spares memory


def _estimate(
    statistic: Callable[[Scores], np.ndarray], scores: Scores, drawn: Drawn, batch: int | None = None
) -> Estimate:
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
        scores, of_samples, n_resamples=_RESAMPLES, axis=0, vectorized=True, method="percentile", rng=_SEED, batch=batch
    )
    return Estimate(value, found.confidence_interval.low, found.confidence_interval.high)
