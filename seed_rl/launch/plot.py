"""Learning curves as pictures: runs compared, and those that differ in their seed only as one with an interval."""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Sequence
from typing import Any, NamedTuple

import matplotlib
import numpy as np

matplotlib.use("Agg")
from matplotlib import pyplot

from seed_rl.learner import metrics

AXES = {"frames": ("env_frames", 1e6, "million environment frames"), "hours": ("seconds", 3600.0, "hours")}
CURVES = {"episode_return": "-", "eval/episode_return": "--"}
"""What is drawn of a run, and how."""

_POINTS = 200  # of a curve of several runs
# Student's t for a two-sided interval of 95 %, by degrees of freedom; beyond them the normal distribution's.
_T = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262)
_NORMAL = 1.96


class NoCurve(ValueError):
    """A place without metrics that can be plotted; the message says which."""


class Run(NamedTuple):
    """The metrics of one run."""

    name: str
    rows: list[dict[str, float]]
    settings: str | None
    """Its configuration but for the seed; None if it isn't known."""


class Curve(NamedTuple):
    """One or several runs, at the same x."""

    x: np.ndarray
    """float [n]: frames or hours."""
    mean: np.ndarray
    """float [n]: the return at each x, averaged over the runs."""
    half: np.ndarray | None
    """Half of the interval that holds the mean with a probability of 95 %; None of a single run."""


def plot_curves(places: Sequence[str], outputs: Sequence[str], x_axis: str) -> None:
    """Draws `episode_return` of runs, and `eval/episode_return` (dashed) of those that evaluate.

    Args:
      places: log directories, directories of such, or CSV files with the columns of their metrics.
      outputs: files to write; their endings say the format.
      x_axis: a key of `AXES`.

    Raises:
      NoCurve: a place without the needed metrics.
    """
    column, scale, label = AXES[x_axis]
    figure, axes = pyplot.subplots(figsize=(7, 4), dpi=120)
    runs = [run for place in places for run in _runs(place)]
    for name, group in grouped(runs).items():
        colour = None
        for key, style in CURVES.items():
            drawn = [points for run in group if len(points := _points(run.rows, column, key))]
            if not drawn:
                continue
            curve = together(drawn)
            title = name if key == "episode_return" else f"{name}, evaluation (last {metrics.RECENT_EVAL_EPISODES})"
            (line,) = axes.plot(curve.x / scale, curve.mean, style, label=title, color=colour)
            colour = line.get_color()
            if curve.half is not None:
                low, high = curve.mean - curve.half, curve.mean + curve.half
                axes.fill_between(curve.x / scale, low, high, color=colour, alpha=0.2, linewidth=0)
    axes.set_xlabel(label)
    axes.set_ylabel(f"return, mean of the last {metrics.RECENT_EPISODES} episodes")
    axes.grid(alpha=0.3)
    axes.legend(loc="best", frameon=False)
    figure.tight_layout()
    for output in outputs:
        figure.savefig(output)
    pyplot.close(figure)


def grouped(runs: Sequence[Run]) -> dict[str, list[Run]]:
    """Runs that are the same but for their seeds, by the beginning that their names have in common."""
    groups: dict[str, list[Run]] = {}
    for index, run in enumerate(runs):
        groups.setdefault(run.settings or f"run {index}", []).append(run)
    named: dict[str, list[Run]] = {}
    for group in groups.values():
        name = group[0].name
        if len(group) > 1:
            common = os.path.commonprefix([run.name for run in group])  # noqa: RUF071 (of names, not of paths)
            common = common.rstrip("0123456789").rstrip("_-. ") or name
            name = f"{common} ({len(group)} seeds)"
        while name in named:
            name += "'"
        named[name] = group
    return named


def together(curves: Sequence[np.ndarray]) -> Curve:
    """The mean of curves [n, 2] of x and y over what they have in common of x."""
    if len(curves) == 1:
        return Curve(curves[0][:, 0], curves[0][:, 1], None)
    begin, end = max(curve[0, 0] for curve in curves), min(curve[-1, 0] for curve in curves)
    x = np.linspace(begin, max(begin, end), _POINTS)
    values = np.array([np.interp(x, curve[:, 0], curve[:, 1]) for curve in curves])
    freedom = len(curves) - 1
    t = _T[freedom - 1] if freedom <= len(_T) else _NORMAL
    return Curve(x, values.mean(axis=0), t * values.std(axis=0, ddof=1) / np.sqrt(len(curves)))


def _points(rows: Sequence[dict[str, float]], column: str, key: str) -> np.ndarray:
    return np.array([(row[column], row[key]) for row in rows if row.get(key) is not None])


def _runs(place: str) -> list[Run]:
    if os.path.isdir(place) and not os.path.exists(os.path.join(place, metrics.FILE)):
        inside = [os.path.join(place, name) for name in sorted(os.listdir(place))]
        found = [path for path in inside if os.path.exists(os.path.join(path, metrics.FILE))]
        if not found:
            raise NoCurve(f"{place} is not the log directory of a run, and there is none in it")
        return [run for path in found for run in _runs(path)]
    rows = _rows(place)
    if not any(row.get("episode_return") is not None for row in rows):
        raise NoCurve(f"{place} has no episode returns yet")
    name = os.path.basename(os.path.normpath(place if os.path.isdir(place) else os.path.dirname(place) or place))
    return [Run(name, rows, _settings(place))]


def _settings(place: str) -> str | None:
    path = os.path.join(place, "config.json")
    if not os.path.isfile(path):
        return None
    with open(path, encoding="utf-8") as file:
        settings: dict[str, Any] = json.load(file)
    settings.pop("seed", None)
    return json.dumps(settings, sort_keys=True)


def _rows(place: str) -> list[dict[str, float]]:
    try:
        if os.path.isdir(place):
            return metrics.read(place)
        with open(place, encoding="utf-8", newline="") as file:
            return [{k: float(v) for k, v in row.items() if v != ""} for row in csv.DictReader(file)]
    except (OSError, ValueError) as error:
        raise NoCurve(f"{place} can't be read as metrics: {error}") from error
