"""Studies: several `seed_rl train` processes, each with its log directory, and tables of their results."""

import abc
import contextlib
import csv
import json
import os
import pathlib
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Table

from seed_rl.experiment import ConfigError
from seed_rl.reporting import metrics
from seed_rl.reporting.text import duration
from seed_rl.system import children
from seed_rl.system.files import explained, locked, reason

_FINISHED = "finished.json"
"""File with the arguments of a finished run. With different arguments, such as more frames, the run continues."""
_MAX_COLUMNS = 100
_POLL_SECONDS = 0.2
_STOP_SECONDS = 60.0


class Trial(NamedTuple):
    """A run and the settings that distinguish it."""

    name: str
    """Name of its log directory."""
    settings: dict[str, str]
    """Values of the gin parameters in which trials differ."""

    @property
    def bindings(self) -> list[str]:
        """Gin bindings of this trial's settings."""
        return [f"{name} = {value}" for name, value in self.settings.items()]


class Column(NamedTuple):
    """A column in a table of results."""

    head: str
    text: Callable[[Any], str] | None = None
    """Formats a number; None for a column of texts. Numbers are right-aligned and never wrapped."""


class Study(abc.ABC):
    """Trains trials in subdirectories of one directory, and reports their results."""

    def __init__(self, arguments: Sequence[str], directory: str):
        """
        Args:
          arguments: arguments of `seed_rl train` for all trials.
          directory: parent of the log directories; created if missing.

        Raises:
          ConfigError: the directory can't be created.
        """
        self._arguments = arguments
        self.directory = directory
        self.failures: dict[str, str] = {}
        """Reasons for failures, by name of the trial."""
        with explained(ConfigError, f"--logdir {directory} can't be used"):
            os.makedirs(directory, exist_ok=True)

    @abc.abstractmethod
    def run(self, stopped: Callable[[], bool], say: Callable[[str], None]) -> int:
        """Train what is left, and return the first nonzero exit code of a run, if any.

        Args:
          stopped: polled from several threads; once it returns true, the current runs save a checkpoint and end.
          say: called with a line of text when a run begins, and when it ends without being stopped.

        Raises:
          ConfigError: the directory can't be used.
        """

    def train(self, trial: Trial, title: str, stopped: Callable[[], bool], say: Callable[[str], None]) -> int:
        """Train a trial to its end, starting from its checkpoint if it has one; return the exit code of the run.

        Messages describe the trial by its `title`; for `stopped` and `say` see `run`.
        """
        if stopped():
            return 0
        command = children.seed_rl("train", "--exit_with_parent", f"--logdir={self.path(trial)}")
        started = time.monotonic()
        try:
            say(f"started: {title}")
            self._await_orphan(trial, stopped)
            code, ended = children.run_logged(
                [*command, *self._arguments_of(trial)],
                self.path(trial, "output.log"),
                lambda process: _wait(process, stopped),
            )
            if stopped():
                return code
            if not code:
                pathlib.Path(self.path(trial, _FINISHED)).write_text(json.dumps(self._arguments_of(trial)))
        except OSError as error:
            code, ended = 1, f"{error.filename or self.path(trial)} can't be used: {reason(error)}"
        if code:
            self.failures[trial.name] = ended
            say(f"failed: {title}: {ended}")
        else:
            returns = [row["episode_return"] for row in self.curve(trial) if "episode_return" in row]
            returned = f", return {returns[-1]:.2f}" if returns else ""
            say(f"finished: {title} after {duration(time.monotonic() - started)}{returned}")
        return code

    def _await_orphan(self, trial: Trial, stopped: Callable[[], bool]) -> None:
        """Wait for a run left behind by a killed sweep to write its last checkpoint."""
        lock, deadline = self.path(trial, "lock"), time.monotonic() + _STOP_SECONDS
        while os.path.exists(lock) and not stopped() and time.monotonic() < deadline:
            with contextlib.suppress(BlockingIOError), locked(lock):
                return
            time.sleep(_POLL_SECONDS)

    def path(self, trial: Trial, *names: str) -> str:
        """Return the path of a trial's log directory, or of a file in it."""
        return os.path.join(self.directory, trial.name, *names)

    def curve(self, trial: Trial) -> list[dict[str, float]]:
        """Return a trial's rows of metrics, empty if it hasn't started."""
        return metrics.read(self.path(trial)) if os.path.isfile(self.path(trial, metrics.FILE)) else []

    def is_finished(self, trial: Trial) -> bool:
        """Return whether the trial has been trained to its end with the current arguments."""
        with contextlib.suppress(FileNotFoundError):
            note = json.dumps(self._arguments_of(trial)).encode()
            return pathlib.Path(self.path(trial, _FINISHED)).read_bytes() == note
        return False

    def _arguments_of(self, trial: Trial) -> list[str]:
        return [*self._arguments, *(f"--gin_param={binding}" for binding in trial.bindings)]

    @abc.abstractmethod
    def results(self) -> list[dict[str, Any]]:
        """Return one row per trial, the best first. The key `failure` has the reason for a failure."""

    @abc.abstractmethod
    def columns(self) -> Mapping[str, Column | None]:
        """Return the columns of `results` by key, starting with the trial; None for those left out of the table."""

    def table(self) -> str:
        """Format the results as a table at most 100 columns wide, followed by the reasons for failures.

        Columns of numbers that no trial has are left out.
        """
        rows, drawn = self.results(), Table(box=None, pad_edge=False, header_style="")
        shown = {
            key: column
            for key, column in self.columns().items()
            if column is not None and (column.text is None or any(key in row for row in rows))
        }
        for head, text in shown.values():
            is_number = text is not None
            drawn.add_column(head, justify="right" if is_number else "left", no_wrap=is_number, overflow="fold")
        for row in rows:
            drawn.add_row(*((text or str)(row[key]) if key in row else "" for key, (_, text) in shown.items()))
        console = Console(width=_MAX_COLUMNS, color_system=None, markup=False)
        with console.capture() as capture:
            console.print(drawn)
        name = next(iter(shown))
        failures = [f"{name} {row[name]}: {row['failure']}" for row in rows if "failure" in row]
        return "\n".join([*(line.rstrip() for line in capture.get().splitlines()), *failures])

    def write_results(self) -> str:
        """Write `results.csv` and `results.json` into the directory; return the path of the CSV file.

        Raises:
          ConfigError: a file can't be written.
        """
        path, rows = os.path.join(self.directory, "results.csv"), self.results()
        with explained(ConfigError, f"the results in {self.directory} can't be written"):
            with open(path, "w", encoding="utf-8", newline="") as file:
                table = csv.DictWriter(file, [*self.columns()], lineterminator="\n")
                table.writeheader()
                table.writerows(rows)
            pathlib.Path(self.directory, "results.json").write_text(json.dumps(rows, indent=2), encoding="utf-8")
        return path


def _wait(process: subprocess.Popen[bytes], stopped: Callable[[], bool]) -> int:
    """Wait for a run, interrupting it once `stopped` returns true; return its exit code."""
    while not stopped():
        with contextlib.suppress(subprocess.TimeoutExpired):
            return process.wait(_POLL_SECONDS)
    process.send_signal(signal.SIGINT)
    try:
        return process.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()
