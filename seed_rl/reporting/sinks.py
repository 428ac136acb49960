"""Where rows of metrics go: a few sinks behind one interface, and one place for what goes wrong with them."""

from __future__ import annotations

import collections
import logging
import os
from collections.abc import Sequence
from typing import Protocol

from seed_rl.config_files import save_config, to_gin
from seed_rl.experiment import Experiment
from seed_rl.files import Outage, reason
from seed_rl.reporting.event_file import EventFile
from seed_rl.reporting.metrics import MetricsFile
from seed_rl.reporting.wandb_run import WandbRun

_log = logging.getLogger(__name__)

_ROWS_KEPT = 10_000
"""For a sink that takes none, the newest; about 20 MB."""


class Sink(Protocol):
    """Takes rows of metrics. What raises OSError is called again later with the same arguments."""

    name: str
    """What it writes, for people."""

    def open(self) -> None:
        """Called before the first row."""

    def write(self, row: dict[str, float], wall_time: float) -> None:
        """Takes a row whole or, raising, not at all. See `Sinks.write`."""

    def close(self) -> None:
        """Called once after the last row; for an opened sink only."""


class Sinks:
    """Gives rows to all sinks.

    One that fails, on a full disk say, neither ends training nor keeps a row from the others. It gets what it missed as
    soon as it works again.
    """

    def __init__(self, sinks: Sequence[Sink]):
        self._feeds = [_Feed(sink) for sink in sinks]
        for feed in self._feeds:
            feed.catch_up()

    def write(self, row: dict[str, float], wall_time: float) -> None:
        """Writes a row; its `env_frames` is the horizontal axis.

        Args:
          row: scalars by their names in `metrics.jsonl`.
          wall_time: seconds since the epoch.
        """
        for feed in self._feeds:
            feed.rows.append((row, wall_time))
            feed.catch_up()

    def close(self) -> None:
        """Closes all."""
        for feed in self._feeds:
            feed.close()


class _Feed:
    """A sink and the rows that it has not taken yet."""

    def __init__(self, sink: Sink):
        self.rows: collections.deque[tuple[dict[str, float], float]] = collections.deque(maxlen=_ROWS_KEPT)
        self._sink = sink
        self._opened = False
        self._outage = Outage(sink.name, "training goes on and tries again", _log)

    def catch_up(self) -> None:
        """Gives the sink all it has not taken."""
        with self._outage.tolerated():
            if not self._opened:
                self._sink.open()
                self._opened = True
            while self.rows:
                self._sink.write(*self.rows[0])
                self.rows.popleft()

    def close(self) -> None:
        """Closes the sink, whatever it has taken."""
        self.catch_up()
        if self.rows:
            _log.error("%s lacks the last %d rows", self._sink.name, len(self.rows))
        if not self._opened:
            return
        try:
            self._sink.close()
        except OSError as error:
            _log.error("%s could not be closed (%s)", self._sink.name, reason(error))


class ConfigFiles:
    """`config.gin` and `config.json`, as a sink that takes no rows: written once, as soon as that works."""

    name = "the configuration"

    def __init__(self, experiment: Experiment, logdir: str):
        self._experiment = experiment
        self._logdir = logdir

    def open(self) -> None:
        """Writes them."""
        save_config(self._experiment, self._logdir)

    def write(self, row: dict[str, float], wall_time: float) -> None:
        """Nothing."""

    def close(self) -> None:
        """Nothing."""


def sinks_of(experiment: Experiment, logdir: str, resume_frames: int | None, with_wandb: bool = True) -> Sinks:
    """All that a run leaves behind besides checkpoints and logs.

    Args:
      experiment: what is trained.
      logdir: the run's directory; it is made if there is none.
      resume_frames: `env_frames` of the checkpoint that the run continues from, None for a new run.
      with_wandb: whether this is the process that reports to Weights & Biases, if the experiment asks for it.
    """
    os.makedirs(logdir, exist_ok=True)
    settings = experiment.to_json()
    sinks: list[Sink] = [
        ConfigFiles(experiment, logdir),
        MetricsFile(logdir, resume_frames),
        EventFile(logdir, resume_frames, settings, to_gin(experiment)),
    ]
    if experiment.logs.wandb_project and with_wandb:
        sinks.append(WandbRun(logdir, resume_frames, settings, experiment.logs.wandb_project))
    return Sinks(sinks)
