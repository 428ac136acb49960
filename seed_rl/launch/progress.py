"""What a person sees of a run: a live panel on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from typing import TextIO

from rich.console import Console
from rich.live import Live

from seed_rl.launch.panel import CURVES, panel
from seed_rl.launch.words import duration, short
from seed_rl.learner.bottleneck import bottleneck


class Progress:
    """Shows the newest row of metrics, and what holds the run back.

    On a terminal a panel is renewed in place; elsewhere each row is a line, and a bottleneck one when it changes.
    """

    def __init__(self, total_frames: int, logdir: str, quiet: bool = False, stream: TextIO | None = None):
        """
        Args:
          total_frames: after which the run ends.
          logdir: where it is stored.
          quiet: show nothing.
          stream: where to show it; None: standard error.
        """
        self._total_frames = total_frames
        self._logdir = logdir
        self._quiet = quiet
        self._console = Console(file=stream or sys.stderr, highlight=False)
        self._live: Live | None = None
        self._bottleneck = ""
        self._rows: list[dict[str, float]] = []
        if self._console.is_terminal and not quiet:
            empty = panel([], total_frames, logdir)
            self._live = Live(empty, console=self._console, auto_refresh=False, transient=False)

    def __enter__(self) -> Progress:
        if self._live:
            self._live.start(refresh=True)
        return self

    def __exit__(self, *error: object) -> None:
        if self._live:
            self._live.stop()

    def show(self, row: dict[str, float]) -> None:
        """Shows a row of `metrics.jsonl`."""
        if self._quiet:
            return
        if self._live:
            if self._rows:
                self._rows[-1] = {key: self._rows[-1][key] for key in CURVES.values() if key in self._rows[-1]}
            self._rows.append(row)
            self._live.update(panel(self._rows, self._total_frames, self._logdir), refresh=True)
            return
        text, limit = summary(row, self._total_frames), bottleneck(row)
        now = time.strftime("%H:%M:%S")
        self._console.print(f"{now} {text}", soft_wrap=True, markup=False)
        if limit != self._bottleneck:
            self._bottleneck = limit
            self._console.print(f"{now} bottleneck: {limit}", soft_wrap=True, markup=False)


def summary(row: dict[str, float], total_frames: int) -> str:
    """One line, under 80 columns, that says how far a run is and how well it does."""
    frames = row["env_frames"]
    parts = [f"{frames / total_frames:4.0%} {short(frames)} frames", f"{short(row['frames_per_second'])}/s"]
    if "loss/total" not in row and "replay/size" in row:
        parts.append(f"filling the replay: {short(row['replay/size'])}")
    elif "episode_return" in row:
        parts.append(f"return {row['episode_return']:.2f}")
    if "eval/episode_return" in row:
        parts.append(f"eval {row['eval/episode_return']:.2f}")
    elif "loss/total" in row:
        parts.append(f"loss {row['loss/total']:.3g}")
    parts.append(f"envs {row['environments']:.0f}")
    if row["frames_per_second"] > 0:
        parts.append(f"left {duration((total_frames - frames) / row['frames_per_second'])}")
    return " | ".join(parts)
