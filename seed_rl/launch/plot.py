"""Learning curves as pictures."""

from __future__ import annotations

import csv
import os
from collections.abc import Sequence

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot

from seed_rl.learner import metrics

AXES = {"frames": ("env_frames", 1e6, "million environment frames"), "hours": ("seconds", 3600.0, "hours")}


class NoCurve(ValueError):
    """A place without metrics that can be plotted; the message says which."""


def plot_curves(places: Sequence[str], output: str, x_axis: str) -> None:
    """Draws `episode_return` of runs, and `eval/episode_return` of those that evaluate.

    Args:
      places: log directories, or CSV files with the columns of their metrics.
      output: file to write; its ending says the format.
      x_axis: a key of `AXES`.

    Raises:
      NoCurve: a place without the needed metrics.
    """
    column, scale, label = AXES[x_axis]
    figure, axes = pyplot.subplots(figsize=(7, 4), dpi=120)
    for place in places:
        rows = [row for row in _rows(place) if row.get("episode_return") is not None]
        if not rows:
            raise NoCurve(f"{place} has no episode returns yet")
        name = os.path.basename(os.path.normpath(place if os.path.isdir(place) else os.path.dirname(place) or place))
        (line,) = axes.plot([row[column] / scale for row in rows], [row["episode_return"] for row in rows], label=name)
        evaluated = [row for row in rows if row.get("eval/episode_return") is not None]
        if evaluated:
            axes.plot(
                [row[column] / scale for row in evaluated],
                [row["eval/episode_return"] for row in evaluated],
                label=f"{name}, evaluation (last {metrics.RECENT_EVAL_EPISODES})",
                color=line.get_color(),
                linestyle="--",
            )
    axes.set_xlabel(label)
    axes.set_ylabel(f"return, mean of the last {metrics.RECENT_EPISODES} episodes")
    axes.grid(alpha=0.3)
    axes.legend(loc="best", frameon=False)
    figure.tight_layout()
    figure.savefig(output)
    pyplot.close(figure)


def _rows(place: str) -> list[dict[str, float]]:
    try:
        if os.path.isdir(place):
            return metrics.read(place)
        with open(place, encoding="utf-8", newline="") as file:
            return [{k: float(v) for k, v in row.items() if v != ""} for row in csv.DictReader(file)]
    except (OSError, ValueError) as error:
        raise NoCurve(f"{place} can't be read as metrics: {error}") from error
