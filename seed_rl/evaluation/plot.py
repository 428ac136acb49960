"""Plots that compare runs; runs that differ only in their seed form one curve with a confidence interval."""

import contextlib
import itertools
import os
import textwrap
from collections.abc import Iterator, Sequence
from typing import Any

import matplotlib
import numpy as np
from cycler import cycler
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import EngFormatter

from seed_rl.evaluation.recorded import group_runs, runs_with_returns
from seed_rl.evaluation.statistics import Estimate, interquartile_mean, performance_profile
from seed_rl.experiment import ConfigError
from seed_rl.reporting import metrics

_CURVES = {"episode_return": "-", "eval/episode_return": "--"}
"""Line styles of the plotted metrics."""
# The colour-blind-safe palette of Okabe and Ito, without its yellow, which is too faint for lines.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")
_LINES: Any = cycler(marker=["", "o", "s", "^"]) * cycler(color=COLOURS)
STYLE: Any = {
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
    "text.parse_math": False,
}
_NARROW, _WIDE, _NOTES = 34, 72, 100  # characters per line: names in two columns, in one column, and notes
_POINTS = 200  # per curve that averages several runs
_RAGGED = 0.05  # a note explains thin lines if more than this share of a curve lacks some of its runs


def plot_curves(places: Sequence[str], outputs: Sequence[str], x_axis: str) -> None:
    """Plot the returns of runs, those of evaluation dashed, and dotted the reward threshold that all runs share.

    Places are log directories, directories that contain some, or CSV files with columns named after metrics; files
    named `...seed=N...` are seeds of one configuration. The `x_axis` is of `frames` or `hours`. Raises a ConfigError if
    a place lacks the required metrics.
    """
    runs = runs_with_returns(places)
    groups = group_runs(runs)
    column, scale, label = "env_frames", 1.0, "environment frames"
    if x_axis == "hours":
        longest = max(row.get("seconds", 0.0) for run in runs for row in run.rows)
        column, scale, label = ("seconds", 3600.0, "hours") if longest >= 3600 else ("seconds", 60.0, "minutes")
    for run in runs:
        if not len(run.points(column, "episode_return")):
            raise ConfigError(f"{run.place} has no row with both a return and a finite {column}")
    with _picture(outputs, len(groups), xlabel=label, ylabel="return") as (axes, handles, notes):
        if x_axis == "frames":
            axes.xaxis.set_major_formatter(EngFormatter(sep=""))
        is_ragged = False
        for (name, group), style in zip(groups, itertools.cycle(_LINES), strict=False):
            handles.append(Line2D([], [], label=name, **style))
            for metric, linestyle in _CURVES.items():
                curves = [points / (scale, 1) for run in group if len(points := run.points(column, metric))]
                is_ragged |= _draw(axes, curves, {**style, "linestyle": linestyle, "markevery": 0.1})
        solved = {run.reward_threshold for run in runs}
        threshold = solved.pop() if len(solved) == 1 else None
        if threshold is not None:
            axes.axhline(threshold, color="grey", linestyle=":", linewidth=1)
            notes.append(f"dotted: {threshold}, from which the task counts as solved")
        notes.append(f"mean of {metrics.RECENT_EPISODES} episodes")
        if any(len(run.points(column, "eval/episode_return")) for run in runs):
            notes.append(f"dashed: evaluation, mean of {metrics.RECENT_EVAL_EPISODES}")
        if any(len(group) > 1 for _, group in groups):
            notes.append("several seeds: interquartile mean and its 95 % interval")
        if is_ragged:
            notes.append("thin: some of the seeds")


def plot_profiles(places: Sequence[str], outputs: Sequence[str]) -> None:
    """Plot performance profiles: the share of runs whose last return exceeds a human-normalised score.

    Runs that differ only in seed and environment form one curve; its interval resamples seeds within each environment.
    Arguments and errors are those of `plot_curves`; environments without human reference scores are an error, too.
    """
    runs = runs_with_returns(places)
    scores = {run.place: run.last_score() for run in runs}
    tasks, agents = zip(*(run.apart_from_environment() for run in runs), strict=True)
    task_of = dict(zip(scores, tasks, strict=True))
    groups = group_runs(agents)
    x = np.linspace(min(0.0, *scores.values()), 1.05 * max(1.0, *scores.values()), _POINTS)
    with _picture(outputs, len(groups), xlabel="human-normalised score, %", ylabel="share of runs above") as picture:
        axes, handles, notes = picture
        for (name, group), style in zip(groups, itertools.cycle(_LINES), strict=False):
            by_task: dict[str, list[float]] = {}
            for run in group:
                by_task.setdefault(task_of[run.place], []).append(scores[run.place])
            share = performance_profile([np.array(own) for own in by_task.values()], x)
            handles += axes.step(x, share.value, label=name, **{**style, "markevery": 0.1})
            axes.fill_between(x, share.low, share.high, step="pre", color=style["color"], alpha=0.2, linewidth=0)
        notes += ["last returns; shaded: 95 % interval"]


@contextlib.contextmanager
def _picture(outputs: Sequence[str], num_curves: int, **labels: str) -> Iterator[tuple[Axes, list[Any], list[str]]]:
    """Yield axes, a list for legend handles and a list for notes, to be filled; then write the figure to all files."""
    handles: list[Any] = []
    notes: list[str] = []
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(7, 4.2 + 0.1 * num_curves), layout="constrained")
        known = figure.canvas.get_supported_filetypes()
        if odd := [path for path in outputs if os.path.splitext(path)[1].lower().lstrip(".") not in known]:
            raise ValueError(f"{odd[0]} has none of the extensions {', '.join(sorted(known))}")
        axes = figure.subplots()
        axes.set(**labels)
        axes.margins(x=0.01)
        yield axes, handles, notes
        columns = 2 if all(len(handle.get_label()) <= _NARROW for handle in handles) else 1
        for handle in handles:
            handle.set_label(textwrap.fill(handle.get_label(), _WIDE))
        title = textwrap.fill("; ".join(notes), _NOTES)
        figure.legend(handles=handles, loc="outside lower center", ncols=columns, title=title)
        figure.draw_without_rendering()
        figure.set_layout_engine("none")  # keeps the layout identical in all files
        for output in outputs:
            figure.savefig(output, metadata={"Date": None} if output.endswith(".svg") else None)


def _draw(axes: Axes, curves: Sequence[np.ndarray], line: dict[str, Any]) -> bool:
    """Draw curves [n, 2] of (x, y) as one; return whether parts are thin because some curves have no values there."""
    if len(curves) < 2:
        for curve in curves:
            axes.plot(*curve.T, **line)
        return False
    x, (middle, low, high) = band_of(curves)
    is_complete = np.isfinite(low)
    axes.fill_between(x, low, high, color=line["color"], alpha=0.2, linewidth=0)
    axes.plot(x, middle, **line | {"linewidth": 0.8, "marker": ""})
    axes.plot(x, np.where(is_complete, middle, np.nan), **line)
    return bool(1 - is_complete.mean() > _RAGGED)


def band_of(curves: Sequence[np.ndarray]) -> tuple[np.ndarray, Estimate]:
    """Compute the interquartile mean of curves [n, 2] of (x, y) at points from the smallest x to the largest.

    The mean is NaN where no curve has values on both sides of x, and its interval where some have none.
    """
    x = np.linspace(min(curve[0, 0] for curve in curves), max(curve[-1, 0] for curve in curves), _POINTS)
    values = np.array([np.interp(x, curve[:, 0], curve[:, 1], np.nan, np.nan) for curve in curves])
    is_known = np.isfinite(values)
    middle, low, high = np.full((3, _POINTS), np.nan)
    for runs in np.unique(is_known.T, axis=0):  # one estimate for all points covered by the same runs
        if runs.any():
            there = (runs == is_known.T).all(axis=1)
            found = interquartile_mean([values[np.ix_(runs, there)]])
            middle[there] = found.value
            if runs.all():
                low[there], high[there] = found.low, found.high
    return x, Estimate(middle, low, high)
