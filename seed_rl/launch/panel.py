"""A run in figures: as a panel on a terminal, or as a line."""

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
from seed_rl.reporting.run_log import bottleneck

CURVES = {"return": "episode_return", "evaluation": "eval/episode_return"}
"""Metrics that are shown as curves, by their labels."""

_TICKS = "▁▂▃▄▅▆▇█"
_ASCII_TICKS = "_.-~=+*#"
_LOSSES = 4  # shown with the total
_MAX_CURVE = 48  # characters


class Shown(NamedTuple):
    """The run that is shown."""

    total_frames: int
    """Its length."""
    logdir: str
    num_envs: int | None = None
    """Environments that are expected to connect; None if unknown."""


class Figures:
    """A row of metrics of a run as text."""

    def __init__(self, run: Shown, row: Mapping[str, float]):
        self.run = run
        self.row = row
        frames = row["env_frames"]
        self.share = f"{min(100, math.floor(100 * frames / run.total_frames))}%"
        """Of the run, rounded down: it is 100 % when the run is done."""
        self.frames = short(frames)
        self.is_done = frames >= run.total_frames
        seconds = row.get("seconds", 0.0)
        self.seconds = duration(seconds) if seconds > 0 else ""
        rate = row["frames_per_second"]
        finished = self.is_done and seconds > 0
        self.rate = short(frames / seconds) if finished else short(rate)
        """Frames per second: the latest, or the mean of a finished run."""
        self.end = f"done in {duration(seconds)}" if finished else ""
        """When the run was or will be done, if that is known."""
        if not finished and rate > 0:
            self.end = f"{duration((run.total_frames - frames) / rate)} left"

    @property
    def speed(self) -> str:
        """Frames per second, and the time that the run has taken and will take."""
        if self.end.startswith("done"):
            return f"{self.rate} frames/s on average, {self.end}"
        so_far = self.seconds and f"{self.seconds} so far"
        return ", ".join(part for part in (f"{self.rate} frames/s", so_far, self.end) if part)

    @property
    def connected(self) -> str:
        """The connected environments and actors."""
        of = "" if self.run.num_envs is None else f" of {self.run.num_envs}"
        text = f"{self.row['environments']:.0f}{of} environments"
        actors = self.row.get("actors")
        return text if actors is None else f"{text} of {actors:.0f} {'actor' if actors == 1 else 'actors'}"

    @property
    def line(self) -> str:
        """The run in under 70 columns."""
        row = self.row
        parts = [f"{self.share:>4} {self.frames} frames", f"{self.rate}/s"]
        if "loss/total" not in row and "replay/size" in row:
            parts.append(f"replay {short(row['replay/size'])}")
        elif "episode_return" in row:
            parts.append(f"return {plain(row['episode_return'])}")
        elif "loss/total" in row:
            parts.append(f"loss {row['loss/total']:.3g}")
        if "eval/episode_return" in row:
            parts.append(f"eval {plain(row['eval/episode_return'])}")
        return ", ".join([*parts, self.end] if self.end else parts)


def panel(run: Shown, row: Mapping[str, float] | None, curves: Mapping[str, Sequence[float]]) -> RenderableType:
    """A run at its newest row of metrics; readable from 60 columns on.

    Args:
      run: the run.
      row: of `metrics.jsonl`; None before the first.
      curves: all values so far of the metrics in `CURVES`.
    """
    lines: dict[str, RenderableType] = {"starting": "the first figures come after some seconds"}
    if row is not None:
        figures = Figures(run, row)
        lines = _lines(figures, curves)
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(overflow="fold")
    for name, text in {**lines, "stored in": Text(run.logdir)}.items():
        grid.add_row(name, text)
    content: RenderableType = grid
    if row is not None:
        bar = Table.grid(expand=True, padding=(0, 1))
        bar.add_column(ratio=1)
        bar.add_column(no_wrap=True)
        bar.add_row(
            ProgressBar(total=run.total_frames, completed=min(row["env_frames"], run.total_frames)),
            f"{figures.share}  {figures.frames} of {short(run.total_frames)} frames",
        )
        content = Group(bar, grid)
    return Panel(content, title="[bold]seed_rl[/bold]", title_align="left", border_style="dim")


def _lines(figures: Figures, curves: Mapping[str, Sequence[float]]) -> dict[str, RenderableType]:
    row = figures.row
    lines: dict[str, RenderableType] = {"speed": figures.speed}
    lines |= {name: _Curve(row[key], curves[key]) for name, key in CURVES.items() if key in row}
    if "loss/total" in row:
        parts = [key for key in row if key.startswith("loss/") and key != "loss/total"][:_LOSSES]
        lines["loss"] = "  ".join([f"{row['loss/total']:.3g}", *(f"{key[5:]} {row[key]:.2g}" for key in parts)])
    elif "replay/size" in row:
        lines["replay"] = f"filling: {short(row['replay/size'])} sequences"
    lines["connected"] = figures.connected
    if not figures.is_done:
        lines["bottleneck"] = Text(bottleneck(row), "yellow")
    return lines


class _Curve:
    """A value and its history, as long as there is room."""

    def __init__(self, value: float, history: Sequence[float]):
        self._value = f"{plain(value):>8}"
        self._history = history

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        room = options.max_width - len(self._value) - 2
        curve = sparkline(self._history, min(_MAX_CURVE, room), _ASCII_TICKS if options.ascii_only else _TICKS)
        yield Text(self._value) + Text(f"  {curve}".rstrip(), "cyan")

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        return Measurement(len(self._value), min(options.max_width, len(self._value) + 2 + _MAX_CURVE))


def sparkline(values: Sequence[float], width: int, ticks: str = _TICKS) -> str:
    """A curve in characters: each is the mean of an equal share of the finite values."""
    finite = [value for value in values if math.isfinite(value)]
    count = min(width, len(finite))
    if count <= 0:
        return ""
    edges = [index * len(finite) // count for index in range(count + 1)]
    means = [sum(finite[a:b]) / (b - a) for a, b in itertools.pairwise(edges)]
    low, span = min(means), max(means) - min(means)
    return "".join(ticks[round((mean - low) / span * (len(ticks) - 1)) if span else 0] for mean in means)
