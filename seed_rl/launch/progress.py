"""What a person sees of a run: a live line on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from typing import TextIO

from rich.console import Console
from rich.live import Live
from rich.text import Text

from seed_rl.learner.bottleneck import bottleneck


class Progress:
    """Shows the newest row of metrics, and what holds the run back.

    On a terminal two lines are renewed in place; elsewhere each row is a line, and a bottleneck one when it changes.
    """

    def __init__(self, total_frames: int, stream: TextIO | None = None):
        stream = stream or sys.stderr
        self._total_frames = total_frames
        self._console = Console(file=stream, highlight=False)
        self._live: Live | None = None
        self._bottleneck = ""
        if self._console.is_terminal:
            self._live = Live(Text("starting ..."), console=self._console, auto_refresh=False, transient=False)

    def __enter__(self) -> Progress:
        if self._live:
            self._live.start(refresh=True)
        return self

    def __exit__(self, *error: object) -> None:
        if self._live:
            self._live.stop()

    def show(self, row: dict[str, float]) -> None:
        """Shows a row of `metrics.jsonl`."""
        text, limit = summary(row, self._total_frames), bottleneck(row)
        if self._live:
            self._live.update(Text(f"{text}\nbottleneck: {limit}", no_wrap=True, overflow="ellipsis"), refresh=True)
            return
        now = time.strftime("%H:%M:%S")
        self._console.print(f"{now} {text}", soft_wrap=True, markup=False)
        if limit != self._bottleneck:
            self._bottleneck = limit
            self._console.print(f"{now} bottleneck: {limit}", soft_wrap=True, markup=False)


def summary(row: dict[str, float], total_frames: int) -> str:
    """One line, under 80 columns, that says how far a run is and how well it does."""
    frames = row["env_frames"]
    parts = [f"{frames / total_frames:4.0%} {_short(frames)} frames", f"{_short(row['frames_per_second'])}/s"]
    if "loss/total" not in row and "replay/size" in row:
        parts.append(f"filling the replay: {_short(row['replay/size'])}")
    elif "episode_return" in row:
        parts.append(f"return {row['episode_return']:.2f}")
    if "eval/episode_return" in row:
        parts.append(f"eval {row['eval/episode_return']:.2f}")
    elif "loss/total" in row:
        parts.append(f"loss {row['loss/total']:.3g}")
    parts.append(f"envs {row['environments']:.0f}")
    if row["frames_per_second"] > 0:
        parts.append(f"left {_duration((total_frames - frames) / row['frames_per_second'])}")
    return " | ".join(parts)


def _short(number: float) -> str:
    for limit, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= limit:
            return f"{number / limit:.3g}{unit}"
    return f"{number:.0f}"


def _duration(seconds: float) -> str:
    minutes, seconds = divmod(round(max(0.0, seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h{minutes:02d}m" if hours else f"{minutes}m{seconds:02d}s"
