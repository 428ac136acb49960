"""A run as a panel on a terminal: how far it is, how well it does, and what holds it back."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from seed_rl.launch.words import duration, short
from seed_rl.learner.bottleneck import bottleneck

CURVES = {"return": "episode_return", "evaluation": "eval/episode_return"}
"""Metrics whose course is shown, by the words for them."""

_TICKS = "▁▂▃▄▅▆▇█"
_LOSSES = 4  # shown besides the total
_CURVE_WIDTH = 32  # characters


def panel(rows: Sequence[Mapping[str, float]], total_frames: int, logdir: str) -> RenderableType:
    """The newest row of metrics in its place among the others; readable from 60 columns on.

    Args:
      rows: of `metrics.jsonl`, the oldest first; empty before the first. Of all but the last only `CURVES` are looked
        at.
      total_frames: after which the run ends.
      logdir: where it is stored.
    """
    title = f"[bold]seed_rl[/bold] {_end_of(logdir, 50)}"
    if not rows:
        return Panel(Text("starting: the first figures come after some seconds", style="dim"), title=title)
    row = rows[-1]
    frames = row["env_frames"]
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim", no_wrap=True, min_width=len("bottleneck"))
    grid.add_column(overflow="ellipsis", no_wrap=True)
    for name, text in _lines(rows, row, total_frames):
        grid.add_row(name, text)
    bar = Table.grid(expand=True, padding=(0, 1))
    bar.add_column(ratio=1)
    bar.add_column(no_wrap=True)
    bar.add_row(
        ProgressBar(total=total_frames, completed=min(frames, total_frames)),
        f"{frames / total_frames:.0%}  {short(frames)} of {short(total_frames)} frames",
    )
    return Panel(Group(bar, grid), title=title, title_align="left", border_style="dim")


def _lines(
    rows: Sequence[Mapping[str, float]], row: Mapping[str, float], total_frames: int
) -> list[tuple[str, RenderableType]]:
    speed = f"{short(row['frames_per_second'])} frames/s"
    if "seconds" in row:
        speed += f", {duration(row['seconds'])} so far"
    if row["frames_per_second"] > 0:
        speed += f", {duration((total_frames - row['env_frames']) / row['frames_per_second'])} left"
    lines: list[tuple[str, RenderableType]] = [("speed", speed)]
    for name, key in CURVES.items():
        if key in row:
            lines.append(
                (name, Text(f"{row[key]:10.2f}  ") + Text(sparkline([r[key] for r in rows if key in r]), "cyan"))
            )
    if "loss/total" in row:
        others = [k for k in row if k.startswith("loss/") and k != "loss/total"][:_LOSSES]
        parts = [f"{row['loss/total']:.3g}", *(f"{key[5:]} {row[key]:.2g}" for key in others)]
        lines.append(("loss", "  ".join(parts)))
    elif "replay/size" in row:
        lines.append(("replay", f"filling: {short(row['replay/size'])} sequences"))
    lines.append(("actors", f"{row['environments']:.0f} environments"))
    lines.append(("bottleneck", Text(bottleneck(row), "yellow")))
    return lines


def sparkline(values: Sequence[float], width: int = _CURVE_WIDTH) -> str:
    """A curve in characters: each stands for the mean of an equal share of the values."""
    count = min(width, len(values))
    edges = [index * len(values) // count for index in range(count + 1)]
    means = [sum(values[a:b]) / (b - a) for a, b in itertools.pairwise(edges)]
    low, high = min(means), max(means)
    if high == low:
        return _TICKS[0] * count
    return "".join(_TICKS[round((mean - low) / (high - low) * (len(_TICKS) - 1))] for mean in means)


def _end_of(path: str, width: int) -> str:
    return path if len(path) <= width else f"...{path[3 - width :]}"
