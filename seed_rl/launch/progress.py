"""The display of a run: a live panel on a terminal, plain lines elsewhere."""

from __future__ import annotations

import contextlib
import sys
import time
from typing import TextIO

from rich.console import Console
from rich.live import Live

from seed_rl.launch.panel import CURVES, Figures, Shown, panel
from seed_rl.reporting.run_log import bottleneck


class Progress:
    """Shows the newest row of metrics, and what limits the throughput of the run.

    On a terminal a panel is renewed in place, below the log; elsewhere (files, pipes, `TERM=dumb`) each row is a line,
    and further lines name the connected actors and the bottleneck when these change. A terminal that is gone, a closed
    pipe or a full disk behind the display does not end the run.
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
          total_frames: length of the run.
          logdir: where it is stored.
          quiet: show nothing.
          stream: where to show it; None: standard error.
          num_envs: environments that are expected to connect; None if unknown.
        """
        self._run = Shown(total_frames, logdir, num_envs)
        self._quiet = quiet
        self._stream = stream or sys.stderr
        self._printed: dict[str, str] = {}
        self._curves: dict[str, list[float]] = {key: [] for key in CURVES.values()}
        self._seen = False
        self._live = None if quiet else self._new_live()

    def _new_live(self) -> Live | None:
        console = Console(file=self._stream, highlight=False)
        # Rich takes a pipe for a terminal if FORCE_COLOR is set, but a panel in a file helps nobody.
        if not self._stream.isatty() or not console.is_terminal or console.is_dumb_terminal:
            return None
        return Live(
            panel(self._run, None, {}),
            console=console,
            auto_refresh=False,
            redirect_stdout=sys.stdout.isatty(),  # output to a file goes there
        )

    def __enter__(self) -> Progress:
        if self._live:
            with contextlib.suppress(OSError):
                self._live.start(refresh=True)
        return self

    def __exit__(self, *error: object) -> None:
        if self._live:
            self._live.transient = not self._seen  # a run that did nothing leaves no panel
            with contextlib.suppress(OSError):
                self._live.stop()

    def show(self, row: dict[str, float]) -> None:
        """Shows a row of `metrics.jsonl`."""
        if self._quiet:
            return
        self._seen = True
        for key, curve in self._curves.items():
            if key in row:
                curve.append(row[key])
        with contextlib.suppress(OSError):
            if self._live:
                self._live.update(panel(self._run, row, self._curves), refresh=True)
            else:
                self._print(row)

    def _print(self, row: dict[str, float]) -> None:
        figures = Figures(self._run, row)
        lines = [figures.line]
        if not figures.is_done:
            further = {"connected": figures.connected, "bottleneck": bottleneck(row)}
            lines += [f"{name}: {text}" for name, text in further.items() if text != self._printed.get(name)]
            self._printed = further
        now = time.strftime("%H:%M:%S")
        print("\n".join(f"{now} {line}" for line in lines), file=self._stream, flush=True)
