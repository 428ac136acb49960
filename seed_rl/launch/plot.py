"""Learning curves as pictures: runs compared, those that differ only in their seed as one curve with an interval."""

from __future__ import annotations

import contextlib
import csv
import itertools
import json
import logging
import os
from collections.abc import Iterator, Sequence
from pathlib import PurePath
from typing import Any, NamedTuple

import matplotlib
import numpy as np

matplotlib.use("Agg")
from cycler import cycler
from matplotlib import pyplot
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import EngFormatter

from seed_rl.launch.cli import UsageError
from seed_rl.object_store import files_in, local_file
from seed_rl.reporting import metrics
from seed_rl.reporting.statistics import interquartile_mean

_log = logging.getLogger(__name__)

_CURVES = {"episode_return": "-", "eval/episode_return": "--"}
"""The metrics that are drawn, and their line styles."""
# The colours of Okabe and Ito, which the colour-blind can tell apart; without their yellow, too faint for a line.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")
_LINES: Any = cycler(marker=["", "o", "s", "^"]) * cycler(color=_COLOURS)
_STYLE: Any = {
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.3,
    "legend.frameon": False,
    "legend.title_fontsize": "small",
    "lines.linewidth": 1.8,
    "lines.markersize": 5,
    "savefig.dpi": 150,
    "svg.hashsalt": "seed_rl",
}
_MAX_DIFFERENCES = 3  # settings in a label; runs with more differences are named by their directories
_POINTS = 200  # of a curve of several runs
_RAGGED = 0.05  # share of a curve without all of its runs from which on it is explained


class Recorded(NamedTuple):
    """The metrics of one run."""

    place: str
    """Its directory."""
    rows: list[dict[str, float]]
    settings: dict[str, Any] | None
    """Its configuration without the seed; None if unknown."""

    def points(self, column: str, metric: str) -> np.ndarray:
        """The finite values [n, 2] of a column and a metric."""
        values = [(row[column], row[metric]) for row in self.rows if row.get(metric) is not None]
        points = np.array(values, float).reshape(-1, 2)
        return points[np.isfinite(points).all(axis=1)]


class Band(NamedTuple):
    """The interquartile mean of several runs; arrays [n]."""

    x: np.ndarray
    """Environment frames or hours."""
    middle: np.ndarray
    """Of the runs that have values on both sides of x; NaN where none has."""
    low: np.ndarray
    """Of its 95 % interval; NaN where not all runs have values."""
    high: np.ndarray
    """Likewise."""
    is_complete: np.ndarray
    """bool: whether all runs have values."""


def plot_curves(places: Sequence[str], outputs: Sequence[str], x_axis: str) -> None:
    """Draws `episode_return` of runs, and `eval/episode_return` (dashed) of those that evaluate.

    Runs in which no episode has ended yet are left out, with a warning.

    Args:
      places: log directories, directories that contain some, or CSV files with the columns of their metrics; from
        those in object stores only metrics and configurations are fetched.
      outputs: files to write; their endings say the format.
      x_axis: `frames` or `hours`.

    Raises:
      UsageError: a place without the needed metrics.
      CannotReach: a place in an object store that can't be read.
    """
    runs = _with_returns([run for place in places for run in _runs(place)])
    groups = grouped(runs)
    column, scale, label = "env_frames", 1.0, "environment frames"
    if x_axis == "hours":
        longest = max(row["seconds"] for run in runs for row in run.rows)
        column, scale, label = ("seconds", 3600.0, "hours") if longest >= 3600 else ("seconds", 60.0, "minutes")
    with matplotlib.rc_context(_STYLE):
        figure, axes = pyplot.subplots(figsize=(7, 4.2 + 0.1 * len(groups)), layout="constrained")
        axes.set(xlabel=label, ylabel="return")
        axes.margins(x=0.01)
        if x_axis == "frames":
            axes.xaxis.set_major_formatter(EngFormatter(sep=""))
        handles, is_ragged = [], False
        for (name, group), style in zip(groups, itertools.cycle(_LINES), strict=False):
            handles.append(Line2D([], [], label=name, **style))
            for metric, linestyle in _CURVES.items():
                curves = [points / (scale, 1) for run in group if len(points := run.points(column, metric))]
                is_ragged |= _draw(axes, curves, {**style, "linestyle": linestyle, "markevery": 0.1})
        notes = {
            f"mean of {metrics.RECENT_EPISODES} episodes": True,
            f"dashed: evaluation, mean of {metrics.RECENT_EVAL_EPISODES}": any(
                len(run.points(column, "eval/episode_return")) for run in runs
            ),
            "several seeds: interquartile mean and its 95 % interval": any(len(group) > 1 for _, group in groups),
            "thin: some of the seeds": is_ragged,
        }
        title = "; ".join(note for note, applies in notes.items() if applies)
        figure.legend(handles=handles, loc="outside lower center", ncols=2, title=title)
        figure.draw_without_rendering()
        figure.set_layout_engine("none")  # the layout stays the same in all files
        for output in outputs:
            figure.savefig(output, metadata={"Date": None} if output.endswith(".svg") else None)
        pyplot.close(figure)


def _draw(axes: Axes, curves: Sequence[np.ndarray], line: dict[str, Any]) -> bool:
    """Draws curves [n, 2] of x and y as one; whether it is thin in places, where not all have values."""
    if len(curves) < 2:
        for curve in curves:
            axes.plot(*curve.T, **line)
        return False
    x, middle, low, high, is_complete = band_of(curves)
    axes.fill_between(x, low, high, color=line["color"], alpha=0.2, linewidth=0)
    axes.plot(x, middle, **line | {"linewidth": 0.8, "marker": ""})
    axes.plot(x, np.where(is_complete, middle, np.nan), **line)
    return bool(1 - is_complete.mean() > _RAGGED)


def band_of(curves: Sequence[np.ndarray]) -> Band:
    """The interquartile mean of several curves [n, 2] of x and y, from the first x to the last one."""
    x = np.linspace(min(curve[0, 0] for curve in curves), max(curve[-1, 0] for curve in curves), _POINTS)
    values = np.array([np.interp(x, curve[:, 0], curve[:, 1], np.nan, np.nan) for curve in curves])
    is_known = np.isfinite(values)
    is_complete = is_known.all(axis=0)
    middle, low, high = np.full((3, _POINTS), np.nan)
    for runs in np.unique(is_known.T, axis=0):  # the same runs have values at many points
        if runs.any():
            there = (is_known.T == runs).all(axis=1)
            found = interquartile_mean([values[np.ix_(runs, there)]])
            middle[there] = found.value
            if runs.all():
                low[there], high[there] = found.low, found.high
    return Band(x, middle, low, high, is_complete)


def grouped(runs: Sequence[Recorded]) -> list[tuple[str, list[Recorded]]]:
    """Runs that are equal but for their seeds, each group after a label that tells it from the others."""
    groups: dict[str, list[Recorded]] = {}
    for index, run in enumerate(runs):
        key = f"run {index}" if run.settings is None else json.dumps(run.settings, sort_keys=True)
        groups.setdefault(key, []).append(run)
    labelled = zip(_names(list(groups.values())), groups.values(), strict=True)
    return [(f"{name} ({len(group)} seeds)" if len(group) > 1 else name, group) for name, group in labelled]


def _names(groups: Sequence[Sequence[Recorded]]) -> list[str]:
    """The settings in which groups of runs differ, if these are few, else their directories."""
    known = [group[0].settings for group in groups if group[0].settings is not None]
    if len(groups) == len(known) > 1:
        everything = dict.fromkeys(name for one in known for name in one)
        differing = [name for name in everything if any(one.get(name) != known[0].get(name) for one in known)]
        names = [", ".join(_setting(name, one.get(name)) for name in differing) for one in known]
        if len(differing) <= _MAX_DIFFERENCES and len(set(names)) == len(names):
            return names
    places = [os.path.abspath(_directory([run.place for run in group])) for group in groups]
    above = os.path.commonpath(list(map(os.path.dirname, places)))
    return [os.path.relpath(place, above) for place in places]


def _setting(name: str, value: Any) -> str:
    short = name.rpartition(".")[2]
    value = f"{value:g}" if isinstance(value, float) else value
    return str(value) if short in ("game", "level", "scenario", "id", "kind") else f"{short} = {value}"


def _directory(places: list[str]) -> str:
    """The directory of a group's runs, without the part that numbers them."""
    if len(places) == 1:
        return places[0]
    common = os.path.commonprefix(places)  # noqa: RUF071 (the names may begin alike)
    stem = common.rstrip("0123456789").removesuffix("seed=").removesuffix("seed").rstrip("_-. ")
    return stem.rstrip(os.sep) or places[0]


def _with_returns(runs: Sequence[Recorded]) -> list[Recorded]:
    found = [run for run in runs if any(row.get("episode_return") is not None for row in run.rows)]
    if not found:
        raise UsageError(f"no episode returns yet in {', '.join(run.place for run in runs)}")
    for run in runs:
        if run not in found:
            _log.warning("%s has no episode returns yet: it is left out", run.place)
    return found


def _runs(place: str) -> list[Recorded]:
    """The runs in a place, at any depth."""
    files = files_in(place)
    if not files and not os.path.isdir(place):
        with _readable(place), local_file(place) as local, open(local, encoding="utf-8", newline="") as file:
            rows = [{name: float(value) for name, value in row.items() if value != ""} for row in csv.DictReader(file)]
        return [Recorded(os.path.dirname(place) or place, rows, None)]
    found = {PurePath(file).parent for file in files if PurePath(file).name == metrics.FILE}
    if not found:
        raise UsageError(f"{place} is not the log directory of a run, and there is none in it")
    outermost = sorted(run for run in found if found.isdisjoint(run.parents))  # further learner hosts are inside
    return [_run(os.path.join(place, *run.parts), str(run / "config.json") in files) for run in outermost]


def _run(directory: str, has_settings: bool) -> Recorded:
    with _readable(directory):
        rows = metrics.read(directory)
    if not has_settings:
        return Recorded(directory, rows, None)
    path = os.path.join(directory, "config.json")
    with _readable(path), local_file(path) as local, open(local, encoding="utf-8") as file:
        settings: dict[str, Any] = json.load(file)
    return Recorded(directory, rows, {name: value for name, value in settings.items() if name != "seed"})


@contextlib.contextmanager
def _readable(place: str) -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError) as error:
        raise UsageError(f"{place} can't be read: {error}") from error
