"""A run as a panel on a terminal: how far it is, how well it does, and what holds it back."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.measure import Measurement
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from seed_rl.launch.formatting import duration, plain, short
from seed_rl.reporting.bottleneck import bottleneck

CURVES = {"return": "episode_return", "evaluation": "eval/episode_return"}
"""Metrics whose course is shown, by the words for them."""

_TICKS = "▁▂▃▄▅▆▇█"
_ASCII_TICKS = "_.-~=+*#"
_LOSSES = 4  # shown besides the total
_LONGEST_CURVE = 48  # characters


class Shown(NamedTuple):
    """The run that a panel shows."""

    total_frames: int
    """After which it ends."""
    logdir: str
    """Where it is stored."""
    num_envs: int | None = None
    """Environments that are to be connected; None if that isn't known."""


def panel(run: Shown, row: Mapping[str, float] | None, courses: Mapping[str, Sequence[float]]) -> RenderableType:
    """A run at its newest row of metrics; readable from 60 columns on.

    Args:
      run: what is shown.
      row: of `metrics.jsonl`; None before the first.
      courses: all values so far of the metrics in `CURVES`.
    """
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(overflow="fold")
    if row is None:
        grid.add_row("starting", "the first figures come after some seconds")
        grid.add_row("stored in", Text(run.logdir))
        return _framed(grid)
    for name, text in _lines(run, row, courses):
        grid.add_row(name, text)
    frames = row["env_frames"]
    bar = Table.grid(expand=True, padding=(0, 1))
    bar.add_column(ratio=1)
    bar.add_column(no_wrap=True)
    bar.add_row(
        ProgressBar(total=run.total_frames, completed=min(frames, run.total_frames)),
        f"{share(frames, run.total_frames)}  {short(frames)} of {short(run.total_frames)} frames",
    )
    return _framed(Group(bar, grid))


def share(frames: float, total_frames: int) -> str:
    """How far a run is, in percent; 100 % when it is done and not before."""
    return f"{min(100, math.floor(100 * frames / total_frames))}%"


def _framed(content: RenderableType) -> Panel:
    return Panel(content, title="[bold]seed_rl[/bold]", title_align="left", border_style="dim")


def _lines(
    run: Shown, row: Mapping[str, float], courses: Mapping[str, Sequence[float]]
) -> list[tuple[str, RenderableType]]:
    lines: list[tuple[str, RenderableType]] = [("speed", speed(row, run.total_frames))]
    for name, key in CURVES.items():
        if key in row:
            lines.append((name, _Curve(row[key], courses[key])))
    if "loss/total" in row:
        others = [k for k in row if k.startswith("loss/") and k != "loss/total"][:_LOSSES]
        lines.append(("loss", "  ".join([f"{row['loss/total']:.3g}", *(f"{k[5:]} {row[k]:.2g}" for k in others)])))
    elif "replay/size" in row:
        lines.append(("replay", f"filling: {short(row['replay/size'])} sequences"))
    lines.append(("connected", connected(run, row)))
    if row["env_frames"] < run.total_frames:
        lines.append(("bottleneck", Text(bottleneck(row), "yellow")))
    lines.append(("stored in", Text(run.logdir)))
    return lines


def speed(row: Mapping[str, float], total_frames: int) -> str:
    """Frames per second, and the time that a run has taken and will take; of a finished run the mean."""
    frames, seconds = row["env_frames"], row.get("seconds", 0.0)
    if frames >= total_frames and seconds > 0:
        return f"{short(frames / seconds)} frames/s on average, done in {duration(seconds)}"
    parts = [f"{short(row['frames_per_second'])} frames/s"]
    if seconds > 0:
        parts.append(f"{duration(seconds)} so far")
    if row["frames_per_second"] > 0:
        parts.append(f"{duration((total_frames - frames) / row['frames_per_second'])} left")
    return ", ".join(parts)


def connected(run: Shown, row: Mapping[str, float]) -> str:
    """The environments and actors that are there."""
    environments = f"{row['environments']:.0f} environments"
    if run.num_envs is not None:
        environments = f"{row['environments']:.0f} of {run.num_envs} environments"
    if "actors" not in row:
        return environments
    return f"{environments} of {row['actors']:.0f} {'actor' if row['actors'] == 1 else 'actors'}"


class _Curve:
    """A value and how it has become so, as long as there is room."""

    def __init__(self, value: float, course: Sequence[float]):
        self._value = f"{plain(value):>8}"
        self._course = course

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        room = options.max_width - len(self._value) - 2
        curve = sparkline(self._course, min(_LONGEST_CURVE, room), _ASCII_TICKS if options.ascii_only else _TICKS)
        yield Text(self._value) + Text(f"  {curve}".rstrip(), "cyan")

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        return Measurement(len(self._value), min(options.max_width, len(self._value) + 2 + _LONGEST_CURVE))


def sparkline(values: Sequence[float], width: int, ticks: str = _TICKS) -> str:
    """A curve in characters: each stands for the mean of an equal share of the values that are finite."""
    finite = [value for value in values if math.isfinite(value)]
    count = min(width, len(finite))
    if count <= 0:
        return ""
    edges = [index * len(finite) // count for index in range(count + 1)]
    means = [sum(finite[a:b]) / (b - a) for a, b in itertools.pairwise(edges)]
    low, high = min(means), max(means)
    if high == low:
        return ticks[0] * count
    return "".join(ticks[round((mean - low) / (high - low) * (len(ticks) - 1))] for mean in means)
