"""Learning curves as pictures: runs compared, those that differ only in their seed as one curve with an interval."""

from __future__ import annotations

import csv
import json
import logging
import os
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import matplotlib
import numpy as np

matplotlib.use("Agg")
from matplotlib import pyplot
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from seed_rl.object_store import files_in, local_file
from seed_rl.reporting import metrics

_log = logging.getLogger(__name__)

AXES = {
    "frames": ("env_frames", {1e3: "thousand environment frames", 1e6: "million environment frames"}),
    "hours": ("seconds", {60.0: "minutes", 3600.0: "hours"}),
}
"""Metric of each horizontal axis, and its units: the second for runs of at least one."""
CURVES = {"episode_return": "-", "eval/episode_return": "--"}
"""The metrics that are drawn, and their line styles."""

# The colours of Okabe and Ito, which the colour-blind can tell apart; without their yellow, too faint for a line.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")
_MARKERS = ("", "o", "s", "^")  # tell the eighth curve from the first
_STYLE: Any = {
    "font.size": 11,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.3,
    "legend.frameon": False,
    "legend.fontsize": 10,
    "lines.linewidth": 1.8,
    "svg.hashsalt": "seed_rl",
}
_MAX_INSIDE = 5  # entries of a legend among the curves; a longer one is beside them
_MAX_DIFFERENCES = 3  # settings in a label; runs with more differences are named by their directories
_POINTS = 200  # of a curve of several runs
# Student's t for a two-sided interval of 95 %, by degrees of freedom; beyond them that of the normal distribution.
_T = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262)
_NORMAL = 1.96


class NoCurve(ValueError):
    """A place without metrics that can be plotted; the message names it."""


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


class Curve(NamedTuple):
    """One or several runs, at the same x."""

    x: np.ndarray
    """float [n]: frames or seconds."""
    mean: np.ndarray
    """float [n]: the return at each x, averaged over the runs."""
    half: np.ndarray | None
    """Half of the 95 % confidence interval of the mean; None for a single run."""


def plot_curves(places: Sequence[str], outputs: Sequence[str], x_axis: str) -> None:
    """Draws `episode_return` of runs, and `eval/episode_return` (dashed) of those that evaluate.

    Runs in which no episode has ended yet are left out, with a warning.

    Args:
      places: log directories, directories that contain some, or CSV files with the columns of their metrics; from
        those in object stores only metrics and configurations are fetched.
      outputs: files to write; their endings say the format.
      x_axis: a key of `AXES`.

    Raises:
      NoCurve: a place without the needed metrics.
      CannotReach: a place in an object store that can't be read.
    """
    groups = grouped(_with_returns([run for place in places for run in _runs(place)]))
    runs = [run for group in groups.values() for run in group]
    column, units = AXES[x_axis]
    longest = max(row[column] for run in runs for row in run.rows)
    scale, unit = max((item for item in units.items() if item[0] <= longest), default=min(units.items()))
    with matplotlib.rc_context(_STYLE):
        beside = len(groups) > _MAX_INSIDE
        figure, axes = pyplot.subplots(figsize=(9.5 if beside else 7, 4.2), dpi=150)
        axes.set_xlabel(unit)
        axes.set_ylabel("return")
        axes.margins(x=0.01)
        handles: list[Line2D] = []
        goes_on = False
        for index, (name, group) in enumerate(groups.items()):
            line: dict[str, Any] = {
                "color": _COLOURS[index % len(_COLOURS)],
                "marker": _MARKERS[index // len(_COLOURS) % len(_MARKERS)],
                "markersize": 5,
            }
            handles.append(Line2D([], [], linestyle="-", label=name, **line))
            for metric, style in CURVES.items():
                curves = [points / (scale, 1) for run in group if len(points := run.points(column, metric))]
                goes_on |= _draw(axes, curves, {**line, "linestyle": style, "markevery": 0.1})
        if len(groups) == 1:
            axes.set_title(next(iter(groups)), fontsize=11)
            handles = []
        handles += _explanations(axes, runs, any(len(group) > 1 for group in groups.values()), goes_on)
        if handles and beside:
            axes.legend(handles=handles, loc="center left", bbox_to_anchor=(1.01, 0.5))
        elif handles:
            axes.legend(handles=handles, loc="best")
        figure.tight_layout()
        for output in outputs:
            figure.savefig(output, bbox_inches="tight", metadata={"Date": None} if output.endswith(".svg") else None)
        pyplot.close(figure)


def _draw(axes: Axes, curves: Sequence[np.ndarray], line: dict[str, Any]) -> bool:
    """Draws the mean of curves [n, 2] of x and y; whether some go further than others, which are drawn thin."""
    if not curves:
        return False
    common, further = means(curves)
    axes.plot(common.x, common.mean, **line)
    if common.half is not None:
        low, high = common.mean - common.half, common.mean + common.half
        axes.fill_between(common.x, low, high, color=line["color"], alpha=0.2, linewidth=0)
    if further is not None:
        axes.plot(further.x, further.mean, **line | {"linewidth": 0.8})
    return further is not None


def _explanations(axes: Axes, runs: Sequence[Recorded], has_interval: bool, goes_on: bool) -> list[Line2D]:
    """Entries of the legend for the styles of lines, as far as the label of the axis doesn't explain them."""
    styles: dict[str, dict[str, Any]] = {}
    window = f"mean of {metrics.RECENT_EPISODES} episodes"
    if any("eval/episode_return" in row for run in runs for row in run.rows):
        styles[f"training: {window}"] = {"linestyle": "-"}
        styles[f"evaluation: mean of {metrics.RECENT_EVAL_EPISODES}"] = {"linestyle": "--"}
    else:
        axes.set_ylabel(f"return, {window}")
    if has_interval:
        styles["95 % interval of the mean"] = {"alpha": 0.25, "linewidth": 8}
    if goes_on:
        styles["the seeds that go on"] = {"linewidth": 0.8}
    return [Line2D([], [], color="0.4", label=label, **style) for label, style in styles.items()]


def grouped(runs: Sequence[Recorded]) -> dict[str, list[Recorded]]:
    """Runs that are equal but for their seeds, by a label that tells them from the others."""
    groups: dict[str, list[Recorded]] = {}
    for index, run in enumerate(runs):
        key = f"run {index}" if run.settings is None else json.dumps(run.settings, sort_keys=True)
        groups.setdefault(key, []).append(run)
    names = _names(list(groups.values()))
    return {
        f"{name} ({len(group)} seeds)" if len(group) > 1 else name: group
        for name, group in zip(names, groups.values(), strict=True)
    }


def _names(groups: Sequence[Sequence[Recorded]]) -> list[str]:
    """The settings in which groups of runs differ, if these are few, else their directories."""
    known = [group[0].settings for group in groups if group[0].settings is not None]
    if len(groups) == len(known) > 1:
        everything = dict.fromkeys(name for one in known for name in one)
        differing = [name for name in everything if any(one.get(name) != known[0].get(name) for one in known)]
        names = [", ".join(_setting(name, one.get(name)) for name in differing) for one in known]
        if len(differing) <= _MAX_DIFFERENCES and len(set(names)) == len(names):
            return names
    return _apart([_directory(group) for group in groups])


def _setting(name: str, value: Any) -> str:
    short = name.rpartition(".")[2]
    value = f"{value:g}" if isinstance(value, float) else value
    return str(value) if short in ("game", "level", "scenario", "id", "kind") else f"{short} = {value}"


def _directory(group: Sequence[Recorded]) -> str:
    """The directory of a group's runs, without the part that numbers them."""
    if len(group) == 1:
        return group[0].place
    common = os.path.commonprefix([run.place for run in group])  # noqa: RUF071 (the names may begin alike)
    stem = common.rstrip("0123456789").removesuffix("seed=").removesuffix("seed").rstrip("_-. ")
    return stem.rstrip(os.sep) or group[0].place


def _apart(places: Sequence[str]) -> list[str]:
    """The last parts of paths, as many as it takes to tell them apart."""
    parts = [os.path.abspath(place).split(os.sep) for place in places]
    for count in range(1, max(map(len, parts)) + 1):
        names = [os.path.join(*(part or os.sep for part in path[-count:])) for path in parts]
        if len(set(names)) == len(names):
            return names
    return [f"{os.path.basename(place)} ({index + 1})" for index, place in enumerate(places)]  # a place given twice


def means(curves: Sequence[np.ndarray]) -> tuple[Curve, Curve | None]:
    """The mean of curves [n, 2] of x and y where all of them have values, and that of those that go on from there.

    The second is None if all end at about the same x.
    """
    begin, shortest = max(curve[0, 0] for curve in curves), min(curve[-1, 0] for curve in curves)
    if begin > shortest:  # nowhere do all of them have values
        return means([max(curves, key=lambda curve: float(curve[-1, 0]))])
    longer = [curve for curve in curves if curve[-1, 0] > 1.05 * shortest]
    further = _mean(longer, shortest, min(curve[-1, 0] for curve in longer)) if longer else None
    return _mean(curves, begin, shortest), further


def _mean(curves: Sequence[np.ndarray], begin: float, end: float) -> Curve:
    if len(curves) == 1:
        (curve,) = curves
        x, y = curve[(curve[:, 0] >= begin) & (curve[:, 0] <= end)].T
        return Curve(x, y, None)
    x = np.linspace(begin, end, _POINTS)
    values = np.array([np.interp(x, curve[:, 0], curve[:, 1]) for curve in curves])
    t = dict(enumerate(_T, start=2)).get(len(curves), _NORMAL)
    return Curve(x, values.mean(axis=0), t * values.std(axis=0, ddof=1) / np.sqrt(len(curves)))


def _with_returns(runs: Sequence[Recorded]) -> list[Recorded]:
    found = []
    for run in runs:
        if any(row.get("episode_return") is not None for row in run.rows):
            found.append(run)
        elif len(runs) == 1:
            raise NoCurve(f"{run.place} has no episode returns yet")
        else:
            _log.warning("%s has no episode returns yet: it is left out", run.place)
    if not found:
        raise NoCurve(f"none of the {len(runs)} runs has episode returns yet")
    return found


def _runs(place: str) -> list[Recorded]:
    """The runs in a place, at any depth."""
    files = files_in(place)
    if not files and not os.path.isdir(place):
        return [Recorded(os.path.dirname(place) or place, _read(place, _csv_rows), None)]
    names = [os.path.dirname(file) for file in files if os.path.basename(file) == metrics.FILE]
    # Further learner hosts have directories inside that of the first one.
    own = [name for name in names if not any(f"{name}/".startswith(f"{other}/") for other in names if other != name)]
    own = [""] if "" in names else own
    if not own:
        raise NoCurve(f"{place} is not the log directory of a run, and there is none in it")
    directories = [os.path.join(place, name) if name else place for name in own]
    return [Recorded(directory, _read(directory, metrics.read), _settings(directory)) for directory in directories]


def _settings(directory: str) -> dict[str, Any] | None:
    path = os.path.join(directory, "config.json")
    try:
        with local_file(path) as local, open(local, encoding="utf-8") as file:
            settings: dict[str, Any] = json.load(file)
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise NoCurve(f"{path} can't be read: {error}") from error
    settings.pop("seed", None)
    return settings


def _csv_rows(path: str) -> list[dict[str, float]]:
    with local_file(path) as local, open(local, encoding="utf-8", newline="") as file:
        return [{k: float(v) for k, v in row.items() if v != ""} for row in csv.DictReader(file)]


def _read(place: str, rows: Callable[[str], list[dict[str, float]]]) -> list[dict[str, float]]:
    try:
        return rows(place)
    except (OSError, ValueError) as error:
        raise NoCurve(f"{place} can't be read as metrics: {error}") from error
