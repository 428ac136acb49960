"""Progress display of a run: a live panel on a terminal, plain lines elsewhere."""

import contextlib
import math
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Self, TextIO

import numpy as np
from rich.console import Console, Group
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from seed_rl.experiment import Experiment
from seed_rl.networks.config import TrunkConfig
from seed_rl.reporting.learning import LearningMonitor
from seed_rl.reporting.run_log import bottleneck
from seed_rl.reporting.text import duration, quantity, short

_CURVES = {"return": "episode_return", "evaluation": "eval/episode_return"}  # metrics by label
_TICKS = "▁▂▃▄▅▆▇█"
_CURVE = 34  # characters, of the 60 that the panel needs
_LOSSES = 4  # loss terms shown next to the total


def _sparkline(values: Sequence[float]) -> str:
    """Draw values as a line of characters, each the mean of an equal share of the finite values."""
    finite = [value for value in values if math.isfinite(value)] or [0.0]
    means = np.array([share.mean() for share in np.array_split(finite, min(_CURVE, len(finite)))])
    heights = (means - means.min()) / (np.ptp(means) or 1.0)
    return "".join(_TICKS[round(height * (len(_TICKS) - 1))] for height in heights)


def _plain(number: float) -> str:
    """Format a return: 12.35 or -1256."""
    return f"{number:.2f}" if abs(number) < 1000 else f"{number:.0f}"


class RunDisplay:
    """Shows the latest row of metrics and the bottleneck of the run.

    On a terminal, a panel below the log is updated in place. Elsewhere (files, pipes, `TERM=dumb`) each row is one
    line, followed by lines for connected actors, bottleneck and learning problems whenever these change; a bottleneck
    is one of two rows in succession. All is on standard output, or on standard error if standard output is a terminal.
    A vanished terminal, closed pipe or full disk does not end the run. Rich renders this object as the panel, which
    needs 60 columns.
    """

    def __init__(self, experiment: Experiment, logdir: str, stream: TextIO | None = None) -> None:
        self._experiment, self._logdir = experiment, logdir
        self._stream = stream or (sys.stderr if sys.stdout.isatty() else sys.stdout)
        self._row: Mapping[str, float] = {}
        self._first: Mapping[str, float] = {}  # the first row with an update, which includes the compilation
        self._status: dict[str, str] = {}
        self._limits = "", ""  # of the row before, and the latest that two rows had
        self._printed = {"learning": "", "bottleneck": ""}
        explores = getattr(experiment.agent, "explore_after", 0) > 0
        self._monitor = LearningMonitor(explores, experiment.env.players > 1)
        self._curves: dict[str, list[float]] = {key: [] for key in _CURVES.values()}
        console = Console(file=self._stream, highlight=False)
        self._draws_curves = console.encoding.startswith("utf")
        # With FORCE_COLOR, Rich treats a pipe as a terminal, but a panel in a file is useless.
        can_renew = self._stream.isatty() and console.is_terminal and not console.is_dumb_terminal
        self._live = Live(self, console=console, auto_refresh=False) if can_renew else None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self._live:
            with contextlib.suppress(OSError):
                self._live.stop()

    def show(self, row: Mapping[str, float]) -> None:
        """Show the metrics of an interval."""
        self._row = row
        if "loss/total" in row and not self._first:
            self._first = row
        self._status = self._status_of(row)
        for key, curve in self._curves.items():
            if key in row:
                curve.append(row[key])
        with contextlib.suppress(OSError):
            if self._live:
                self._live.start()  # with the first row
                self._live.refresh()
            else:
                now = time.strftime("%H:%M:%S")
                print("\n".join(f"{now} {line}" for line in self._lines(row)), file=self._stream, flush=True)

    @property
    def _is_done(self) -> bool:
        return self._row["env_frames"] >= self._experiment.total_frames

    def _status_of(self, row: Mapping[str, float]) -> dict[str, str]:
        """Describe connections, bottleneck and learning problem; texts may be empty."""
        actors = quantity(int(row["actors"]), "actor")
        connected = f"{row['environments']:.0f} of {self._experiment.actors.num_envs} environments of {actors}"
        learning = self._monitor.diagnose(row)
        if self._is_done:
            return {"connected": connected}
        agent, is_warm = self._experiment.agent, self._first and self._first is not row
        limit = bottleneck(row, isinstance(agent, TrunkConfig) and agent.loses_by_bfloat16) if is_warm else ""
        before, lasting = self._limits
        self._limits = limit, limit if limit == before else lasting
        return {"connected": connected, "bottleneck": self._limits[1], "learning": learning}

    def _start_of(self, row: Mapping[str, float]) -> str:
        """Describe what happens before the first update; empty from then on."""
        if self._first or self._is_done:
            return ""
        if not row["environments"]:
            return "waiting for actors"
        if not (steps := row["acted_steps"]):
            return "environments are being reset, for which some load or compile levels"
        missing = self._experiment.frames_before_update // self._experiment.env.action_repeat - steps
        then = f"after {missing:,.0f} more" if missing > 0 else "as soon as its unrolls are complete"
        return f"environments are stepping: {steps:,.0f} steps; first update {then}"

    def _progress(self, row: Mapping[str, float]) -> tuple[str, str, str, str]:
        """Format share and number of frames done, frames/s, and the time that it took or, at the rate so far, will."""
        total, frames, seconds = self._experiment.total_frames, row["env_frames"], row["seconds"]
        share = f"{min(100, math.floor(100 * frames / total))}%"  # rounded down: 100 % means done
        if self._is_done:
            return share, short(frames), short(frames / seconds), f"done in {duration(seconds)}"
        first = self._first or row
        grown = frames - first["env_frames"]
        left = f"{duration((total - frames) * (seconds - first['seconds']) / grown)} left" if grown > 0 else ""
        return share, short(frames), short(row["frames_per_second"]), left

    def _lines(self, row: Mapping[str, float]) -> list[str]:
        """Format the row in under 70 columns, plus a line for each status that has changed."""
        share, frames, rate, end = self._progress(row)
        parts = [f"{share:>4} {frames} frames", f"{rate}/s"]
        if start := self._start_of(row):
            parts = [f"{share:>4} {start}"]
        elif "episode_return" in row:
            parts.append(f"return {_plain(row['episode_return'])}")
        elif "loss/total" in row:
            parts.append(f"loss {row['loss/total']:.3g}")
        if "eval/episode_return" in row:
            parts.append(f"eval {_plain(row['eval/episode_return'])}")
        lines = [", ".join(filter(None, [*parts, end]))]
        for name, text in self._status.items() if not self._is_done else ():
            key = text.partition(":")[0] if name == "learning" else text  # behind it are numbers of this row
            if key != self._printed.get(name):
                lines.append(f"{name}: {text or 'problem resolved'}")
            self._printed[name] = key
        return lines

    def __rich__(self) -> Panel:
        row, total = self._row, self._experiment.total_frames
        share, frames, rate, end = self._progress(row)
        bar = Table.grid(expand=True, padding=(0, 1))
        bar.add_column(ratio=1)
        bar.add_column(no_wrap=True)
        bar.add_row(ProgressBar(total, row["env_frames"]), f"{share}  {frames} of {short(total)} frames")
        grid = Table.grid(padding=(0, 2))
        grid.add_column(style="dim", no_wrap=True)
        grid.add_column(overflow="fold")
        if start := self._start_of(row):
            grid.add_row("starting", start)
        else:
            so_far = " on average" if self._is_done else f", {duration(row['seconds'])} so far"
            grid.add_row("speed", ", ".join(filter(None, [f"{rate} frames/s{so_far}", end])))
        for name, key in _CURVES.items():
            if key in row:
                curve = f"  {_sparkline(self._curves[key])}" if self._draws_curves else ""
                grid.add_row(name, Text(f"{_plain(row[key]):>8}") + Text(curve, "cyan"))
        if "loss/total" in row:
            parts = [key for key in row if key.startswith("loss/") and key != "loss/total"][:_LOSSES]
            texts = [f"{row['loss/total']:.3g}", *(f"{key.removeprefix('loss/')} {row[key]:.2g}" for key in parts)]
            grid.add_row("loss", "  ".join(texts))
        for name, text in self._status.items():
            if text:
                grid.add_row(name, Text(text, "" if name == "connected" else "yellow"))
        grid.add_row("stored in", Text(self._logdir))
        return Panel(Group(bar, grid), title="[bold]seed_rl[/bold]", title_align="left", border_style="dim")
