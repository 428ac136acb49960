"""Learning curves as pictures: runs compared, and those that differ in their seed only as one with an interval."""

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

AXES = {"frames": ("env_frames", 1e6, "million environment frames"), "hours": ("seconds", 3600.0, "hours")}
CURVES = {"episode_return": "-", "eval/episode_return": "--"}
"""What is drawn of a run, and how."""

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
_INSIDE = 5  # entries of a legend among the curves; a longer one stands beside them
_TOLD_SETTINGS = 3  # differences that a label names; with more, runs go by their directories
_POINTS = 200  # of a curve of several runs
# Student's t for a two-sided interval of 95 %, by degrees of freedom; beyond them the normal distribution's.
_T = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262)
_NORMAL = 1.96


class NoCurve(ValueError):
    """A place without metrics that can be plotted; the message says which."""


class Recorded(NamedTuple):
    """The metrics of one run."""

    place: str
    """The directory that it is in."""
    rows: list[dict[str, float]]
    settings: dict[str, Any] | None
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

    Runs without an episode that has ended are left out, with a warning, unless there are no others.

    Args:
      places: log directories, directories of such, or CSV files with the columns of their metrics; from those in
        object stores only metrics and configurations are fetched.
      outputs: files to write; their endings say the format.
      x_axis: a key of `AXES`.

    Raises:
      NoCurve: a place without the needed metrics.
      CannotReach: a place in an object store that can't be read.
    """
    groups = grouped(_with_returns([run for place in places for run in _runs(place)]))
    column, scale, unit = _axis(x_axis, [run for group in groups.values() for run in group])
    with matplotlib.rc_context(_STYLE):
        beside = len(groups) > _INSIDE
        figure, axes = pyplot.subplots(figsize=(9.5 if beside else 7, 4.2), dpi=150)
        for index, (name, group) in enumerate(groups.items()):
            colour, marker = _COLOURS[index % len(_COLOURS)], _MARKERS[index // len(_COLOURS) % len(_MARKERS)]
            for key, style in CURVES.items():
                line = {"linestyle": style, "color": colour, "marker": marker, "markersize": 5, "markevery": 0.1}
                _draw(axes, [points for run in group if len(points := _points(run.rows, column, key))], scale, line)
            axes.plot([], [], "-", color=colour, marker=marker, markersize=5, label=name)  # for the legend
        axes.set_xlabel(unit)
        axes.set_ylabel("return")
        axes.margins(x=0.01)
        _add_legend(axes, groups, beside)
        figure.tight_layout()
        for output in outputs:
            figure.savefig(output, bbox_inches="tight", metadata={"Date": None} if output.endswith(".svg") else None)
        pyplot.close(figure)


def _draw(axes: Axes, curves: Sequence[np.ndarray], scale: float, line: dict[str, Any]) -> None:
    """Draws the mean of curves [n, 2] of x and y as far as all go, and thin that of those that go further."""
    if not curves:
        return
    together, further = means(curves)
    axes.plot(together.x / scale, together.mean, **line)
    if together.half is not None:
        low, high = together.mean - together.half, together.mean + together.half
        axes.fill_between(together.x / scale, low, high, color=line["color"], alpha=0.2, linewidth=0)
    if further is not None:
        axes.plot(further.x / scale, further.mean, **line | {"linewidth": 0.8})


def _add_legend(axes: Axes, groups: dict[str, list[Recorded]], beside: bool) -> None:
    """The runs, and below them what the styles of lines mean, as far as it isn't plain."""
    handles = axes.get_legend_handles_labels()[0] if len(groups) > 1 else []
    runs = [run for group in groups.values() for run in group]
    window = f"mean of {metrics.RECENT_EPISODES} episodes"
    if any("eval/episode_return" in row for run in runs for row in run.rows):
        handles.append(Line2D([], [], color="0.4", linestyle="-", label=f"training: {window}"))
        evaluation = f"evaluation: mean of {metrics.RECENT_EVAL_EPISODES}"
        handles.append(Line2D([], [], color="0.4", linestyle="--", label=evaluation))
    else:
        axes.set_ylabel(f"return, {window}")
    if len(groups) == 1:
        axes.set_title(next(iter(groups)), fontsize=11)
    if any(len(group) > 1 for group in groups.values()):
        handles.append(Line2D([], [], color="0.4", alpha=0.25, linewidth=8, label="95 % interval of the mean"))
    if any(_ends_apart(group) for group in groups.values()):
        handles.append(Line2D([], [], color="0.4", linewidth=0.8, label="the seeds that go on"))
    if handles and beside:
        axes.legend(handles=handles, loc="center left", bbox_to_anchor=(1.01, 0.5))
    elif handles:
        axes.legend(handles=handles, loc="best")


def _ends_apart(group: Sequence[Recorded]) -> bool:
    curves = [points for run in group if len(points := _points(run.rows, "env_frames", "episode_return"))]
    return bool(curves) and means(curves)[1] is not None


def _axis(x_axis: str, runs: Sequence[Recorded]) -> tuple[str, float, str]:
    column, scale, unit = AXES[x_axis]
    longest = max(row[column] for run in runs for row in run.rows)
    if x_axis == "hours" and longest < scale:
        return column, 60.0, "minutes"
    if x_axis == "frames" and longest < scale:
        return column, 1e3, "thousand environment frames"
    return column, scale, unit


def grouped(runs: Sequence[Recorded]) -> dict[str, list[Recorded]]:
    """Runs that are the same but for their seeds, by what tells them from the others."""
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
    """The settings in which groups of runs differ, if these are few, or else the directories that they are in."""
    settings = [group[0].settings for group in groups]
    if len(groups) > 1 and all(one is not None for one in settings):
        known = [one for one in settings if one is not None]
        everything = dict.fromkeys(name for one in known for name in one)
        differing = [name for name in everything if any(one.get(name) != known[0].get(name) for one in known)]
        names = [", ".join(_setting(name, one.get(name)) for name in differing) for one in known]
        if len(differing) <= _TOLD_SETTINGS and len(set(names)) == len(names):
            return names
    return _apart([_common(group) for group in groups])


def _setting(name: str, value: Any) -> str:
    short = name.rpartition(".")[2]
    value = f"{value:g}" if isinstance(value, float) else value
    return str(value) if short in ("game", "level", "scenario", "id", "kind") else f"{short} = {value}"


def _common(group: Sequence[Recorded]) -> str:
    """The place of a group's runs, without what numbers them."""
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
    return [f"{os.path.basename(place)} ({index + 1})" for index, place in enumerate(places)]  # one given twice


def means(curves: Sequence[np.ndarray]) -> tuple[Curve, Curve | None]:
    """The mean of curves [n, 2] of x and y where all of them are, and of those that go on after the shortest ends.

    The second is None if they all end at about the same x.
    """
    begin, shortest = max(curve[0, 0] for curve in curves), min(curve[-1, 0] for curve in curves)
    if begin > shortest:  # nowhere are all of them
        return means([max(curves, key=lambda curve: float(curve[-1, 0]))])
    together = _mean(curves, begin, shortest)
    longer = [curve for curve in curves if curve[-1, 0] > 1.05 * shortest]
    if not longer:
        return together, None
    return together, _mean(longer, shortest, min(curve[-1, 0] for curve in longer))


def _mean(curves: Sequence[np.ndarray], begin: float, end: float) -> Curve:
    if len(curves) == 1:
        (curve,) = curves
        inside = (curve[:, 0] >= begin) & (curve[:, 0] <= end)
        return Curve(curve[inside, 0], curve[inside, 1], None)
    x = np.linspace(begin, end, _POINTS)
    values = np.array([np.interp(x, curve[:, 0], curve[:, 1]) for curve in curves])
    freedom = len(curves) - 1
    t = _T[freedom - 1] if freedom <= len(_T) else _NORMAL
    return Curve(x, values.mean(axis=0), t * values.std(axis=0, ddof=1) / np.sqrt(len(curves)))


def _points(rows: Sequence[dict[str, float]], column: str, key: str) -> np.ndarray:
    points = np.array([(row[column], row[key]) for row in rows if row.get(key) is not None], float).reshape(-1, 2)
    return points[np.isfinite(points).all(axis=1)]


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
    directories = [os.path.join(place, name) if name else place for name in names if not _is_inside_any(name, names)]
    if not directories:
        raise NoCurve(f"{place} is not the log directory of a run, and there is none in it")
    return [Recorded(directory, _read(directory, metrics.read), _settings(directory)) for directory in directories]


def _is_inside_any(name: str, others: Sequence[str]) -> bool:
    """Whether a directory is below one of others, as those of further learner hosts are; "" holds all."""
    return any(name != other and (not other or name.startswith(f"{other}/")) for other in others)


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
