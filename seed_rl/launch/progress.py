"""What a person sees of a run: a live panel on a terminal, plain lines elsewhere."""

from __future__ import annotations

import contextlib
import sys
import time
from typing import TextIO

from rich.console import Console
from rich.live import Live

from seed_rl.launch.formatting import duration, plain, short
from seed_rl.launch.panel import CURVES, Shown, connected, panel, share
from seed_rl.reporting.bottleneck import bottleneck


class Progress:
    """Shows the newest row of metrics, and what holds the run back.

    On a terminal a panel is renewed in place, below what is logged meanwhile; elsewhere (files, pipes, `TERM=dumb`)
    each row is a line, and who is connected and the bottleneck are others when they change.
    """

    def __init__(
        self,
        total_frames: int,
        logdir: str,
        quiet: bool = False,
        stream: TextIO | None = None,
        num_envs: int | None = None,
    ):
        """
        Args:
          total_frames: after which the run ends.
          logdir: where it is stored.
          quiet: show nothing.
          stream: where to show it; None: standard error.
          num_envs: environments that are to be connected; None if that isn't known.
        """
        self._run = Shown(total_frames, logdir, num_envs)
        self._quiet = quiet
        self._stream = stream or sys.stderr
        self._standing: dict[str, str] = {}
        self._courses: dict[str, list[float]] = {key: [] for key in CURVES.values()}
        self._seen = False
        self._live = None if quiet else self._make_live()

    def _make_live(self) -> Live | None:
        console = Console(file=self._stream, highlight=False)
        # Rich takes a pipe for a terminal if FORCE_COLOR is set: a panel in a file is of no use to anybody.
        if not self._stream.isatty() or not console.is_terminal or console.is_dumb_terminal:
            return None
        return Live(
            panel(self._run, None, {}),
            console=console,
            auto_refresh=False,
            redirect_stdout=sys.stdout.isatty(),  # what is printed into a file stays there
        )

    def __enter__(self) -> Progress:
        if self._live:
            with _lost_display():
                self._live.start(refresh=True)
        return self

    def __exit__(self, *error: object) -> None:
        if self._live:
            self._live.transient = not self._seen  # a run that did nothing leaves no panel
            with _lost_display():
                self._live.stop()

    def show(self, row: dict[str, float]) -> None:
        """Shows a row of `metrics.jsonl`."""
        if self._quiet:
            return
        self._seen = True
        for key, course in self._courses.items():
            if key in row:
                course.append(row[key])
        with _lost_display():
            if self._live:
                self._live.update(panel(self._run, row, self._courses), refresh=True)
            else:
                self._print(row)

    def _print(self, row: dict[str, float]) -> None:
        lines = [summary(row, self._run.total_frames)]
        standing = {"connected": connected(self._run, row), "bottleneck": bottleneck(row)}
        if row["env_frames"] < self._run.total_frames:
            lines += [f"{name}: {text}" for name, text in standing.items() if text != self._standing.get(name)]
            self._standing = standing
        now = time.strftime("%H:%M:%S")
        print("\n".join(f"{now} {line}" for line in lines), file=self._stream, flush=True)


def _lost_display() -> contextlib.AbstractContextManager[None]:
    """A terminal that is gone, a closed pipe or a full disk behind the display is no reason to end a run."""
    return contextlib.suppress(OSError)


def summary(row: dict[str, float], total_frames: int) -> str:
    """One line, under 70 columns, that says how far a run is and how well it does."""
    frames, seconds = row["env_frames"], row.get("seconds", 0.0)
    done = frames >= total_frames and seconds > 0
    rate = frames / seconds if done else row["frames_per_second"]
    parts = [f"{share(frames, total_frames):>4} {short(frames)} frames", f"{short(rate)}/s"]
    if "loss/total" not in row and "replay/size" in row:
        parts.append(f"replay {short(row['replay/size'])}")
    elif "episode_return" in row:
        parts.append(f"return {plain(row['episode_return'])}")
    elif "loss/total" in row:
        parts.append(f"loss {row['loss/total']:.3g}")
    if "eval/episode_return" in row:
        parts.append(f"eval {plain(row['eval/episode_return'])}")
    if done:
        parts.append(f"done in {duration(seconds)}")
    elif row["frames_per_second"] > 0:
        parts.append(f"{duration((total_frames - frames) / row['frames_per_second'])} left")
    return ", ".join(parts)
