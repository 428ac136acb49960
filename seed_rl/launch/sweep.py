"""Runs of one experiment with different settings and seeds, one after the other or several at a time.

Each is a `seed_rl train` with a log directory of its own inside the sweep's. A sweep that is started again passes over
finished runs and continues the others from their checkpoints.
"""

from __future__ import annotations

import csv
import hashlib
import io
import itertools
import json
import math
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Table

from seed_rl.files import complete_or_absent, reason
from seed_rl.launch.formatting import duration, short
from seed_rl.launch.local_actors import how_it_ended
from seed_rl.reporting import metrics

_FINISHED = "finished.json"  # in a run's directory: the arguments with which it ran to its end
_OUTPUT = "output.log"
_REACHED = ("env_frames", "hours", "last_return", "best_return", "last_evaluation")
_MAX_NAME = 120  # characters; the names of directories have at most 255 bytes
_TABLE_COLUMNS = 100
_POLL_SECONDS = 0.2
_STOP_SECONDS = 60.0


class BadGrid(ValueError):
    """A setting of a sweep that can't be read; one sentence."""


class Trial(NamedTuple):
    """One run of a sweep."""

    name: str
    """Of its log directory."""
    settings: dict[str, str]
    """Value of each gin parameter in which the runs differ, including the seed."""

    @property
    def bindings(self) -> list[str]:
        """Gin bindings of this run alone."""
        return [f"{name} = {value}" for name, value in self.settings.items()]


def trials(grid: Sequence[str], seeds: Sequence[int]) -> list[Trial]:
    """Every combination of the values, with every seed.

    Args:
      grid: gin bindings with several values, such as `VTrace.entropy_cost=0.01,0.001`.
      seeds: of the experiment.

    Raises:
      BadGrid: a binding of another form, or a duplicate.
    """
    values: dict[str, list[str]] = {}
    for binding in grid:
        name, _, text = binding.partition("=")
        name, choices = name.strip(), split(text)
        if not name or not all(choices):
            raise BadGrid(f"expected NAME=VALUE,VALUE,... such as VTrace.entropy_cost=0.01,0.001, got {binding!r}")
        if name in values:
            raise BadGrid(f"a setting may be given once, got {name} again")
        values[name] = choices
    values["Experiment.seed"] = [str(seed) for seed in seeds]
    found = [_trial(dict(zip(values, chosen, strict=True))) for chosen in itertools.product(*values.values())]
    for trial in found:
        if found.count(trial) > 1:
            raise BadGrid(f"{trial.name} would run {found.count(trial)} times: give each value and each seed once")
    return found


def _trial(settings: dict[str, str]) -> Trial:
    name = "_".join(f"{name.rpartition('.')[2]}={value}" for name, value in settings.items())
    plain = re.sub(r"[^\w=.+-]+", "-", name)
    if plain != name or len(plain) > _MAX_NAME:  # two different names may become equal
        plain = f"{plain[:_MAX_NAME]}_{hashlib.sha256(name.encode()).hexdigest()[:6]}"
    return Trial(plain, settings)


def split(text: str) -> list[str]:
    """The parts between commas outside of brackets and quotes, stripped."""
    parts, depth, quote = [""], 0, ""
    for character in text:
        if quote:
            quote = "" if character == quote else quote
        elif character in "'\"":
            quote = character
        elif character in "([{":
            depth += 1
        elif character in ")]}":
            depth -= 1
        elif character == "," and not depth:
            parts.append("")
            continue
        parts[-1] += character
    return [part.strip() for part in parts]


class _Process(NamedTuple):
    """A run in progress."""

    trial: Trial
    process: subprocess.Popen[bytes]
    output_begins: int
    """Where in its output file, bytes."""
    started: float


class Sweep:
    """Runs trials, `parallel` at a time."""

    def __init__(self, wanted: Sequence[Trial], arguments: Sequence[str], directory: str, parallel: int):
        """
        Args:
          wanted: what to run, in this order.
          arguments: of `seed_rl train`, for all.
          directory: holds the log directories.
          parallel: runs at a time.
        """
        self._wanted = list(wanted)
        self._arguments = list(arguments)
        self._directory = directory
        self._parallel = parallel
        self._running: list[_Process] = []
        self._codes: list[int] = []
        self._failures: dict[str, str] = {}

    def run(self, stopped: Callable[[], bool], say: Callable[[str], None]) -> int:
        """Runs all that are not finished yet; the exit code is the first that is not 0.

        Args:
          stopped: polled; once true, the runs in progress save a checkpoint and end.
          say: gets a line for each run that begins or ends.
        """
        waiting = [trial for trial in self._wanted if not self._is_finished(trial)]
        if len(waiting) < len(self._wanted):
            say(f"{len(self._wanted) - len(waiting)} of {len(self._wanted)} runs are finished already")
        try:
            while (waiting or self._running) and not stopped():
                while waiting and len(self._running) < self._parallel:
                    self._start(waiting.pop(0), say)
                self._collect(say)
                time.sleep(_POLL_SECONDS)
        finally:
            self._stop()
        return next((code for code in self._codes if code), 0)

    def _path(self, trial: Trial, name: str = "") -> str:
        return os.path.join(self._directory, trial.name, name)

    def _arguments_of(self, trial: Trial) -> list[str]:
        return [*self._arguments, *(f"--gin_param={binding}" for binding in trial.bindings)]

    def _is_finished(self, trial: Trial) -> bool:
        try:
            with open(self._path(trial, _FINISHED), encoding="utf-8") as file:
                return json.load(file) == self._arguments_of(trial)  # with others, such as more frames, it goes on
        except FileNotFoundError:
            return False

    def _start(self, trial: Trial, say: Callable[[str], None]) -> None:
        logdir = f"--logdir={os.path.join(self._directory, trial.name)}"
        command = [sys.executable, "-m", "seed_rl", "train", logdir, *self._arguments_of(trial)]
        try:
            os.makedirs(self._path(trial), exist_ok=True)
            with open(self._path(trial, _OUTPUT), "ab") as output:
                # In a session of its own: Ctrl-C comes to this process only, which then ends the runs.
                process = subprocess.Popen(
                    command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
                )
                self._running.append(_Process(trial, process, output.tell(), time.monotonic()))
            say(f"begins: {self._title(trial)}")
        except OSError as error:
            self._fail(trial, 1, f"it can't be started: {reason(error)}", say)

    def _title(self, trial: Trial) -> str:
        return f"{trial.name} ({self._wanted.index(trial) + 1} of {len(self._wanted)})"

    def _collect(self, say: Callable[[str], None]) -> None:
        for running in list(self._running):
            trial, code = running.trial, running.process.poll()
            if code is None:
                continue
            self._running.remove(running)
            if code:
                self._fail(trial, code, how_it_ended(code, self._path(trial, _OUTPUT), running.output_begins), say)
                continue
            reached = self._row(trial).get("last_return")
            returned = "" if reached is None else f", return {reached:.2f}"
            say(f"ends: {self._title(trial)} after {duration(time.monotonic() - running.started)}{returned}")
            path = self._path(trial, _FINISHED)
            try:
                with complete_or_absent(path) as file:
                    file.write(json.dumps(self._arguments_of(trial)).encode())
            except OSError as error:
                say(f"{path} can't be written ({reason(error)}): the next start of the sweep checks this run again")

    def _fail(self, trial: Trial, code: int, why: str, say: Callable[[str], None]) -> None:
        self._codes.append(code)
        self._failures[trial.name] = why
        say(f"fails: {self._title(trial)}: {why}")

    def _stop(self) -> None:
        for running in self._running:
            running.process.send_signal(signal.SIGINT)
        deadline = time.monotonic() + _STOP_SECONDS
        for running in self._running:
            try:
                running.process.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                running.process.kill()
            self._codes.append(running.process.wait())
        self._running.clear()

    def results(self) -> list[dict[str, Any]]:
        """A row for each trial, the best last return first: its settings, state, frames and returns."""
        return sorted(map(self._row, self._wanted), key=lambda row: -row.get("last_return", -math.inf))

    def _row(self, trial: Trial) -> dict[str, Any]:
        row: dict[str, Any] = {"run": trial.name, **trial.settings, "state": self._state(trial)}
        if os.path.exists(self._path(trial, metrics.FILE)):
            row |= _reached(metrics.read(os.path.join(self._directory, trial.name)))
        if trial.name in self._failures:
            row["failure"] = self._failures[trial.name]
        return row

    def _state(self, trial: Trial) -> str:
        if trial.name in self._failures:
            return "failed"
        if self._is_finished(trial):
            return "finished"
        return "unfinished" if os.path.isdir(self._path(trial)) else "waiting"

    def table(self) -> str:
        """The results for people, at most 100 columns wide; below the table why runs failed."""
        rows = self.results()
        returns = {"return": "last_return", "best": "best_return", "eval": "last_evaluation"}
        if not any("last_evaluation" in row for row in rows):
            del returns["eval"]
        table = Table("run", "state", box=None, pad_edge=False, header_style="")
        table.columns[0].overflow = "fold"
        for head in ("frames", "time", *returns):
            table.add_column(head, justify="right", no_wrap=True)
        for row in rows:
            reached = [short(row["env_frames"]), duration(3600 * row["hours"])] if "hours" in row else ["", ""]
            reached += [f"{row[key]:.2f}" if key in row else "" for key in returns.values()]
            table.add_row(row["run"], row["state"], *reached)
        text = io.StringIO()
        Console(file=text, width=_TABLE_COLUMNS, color_system=None, markup=False).print(table)
        lines = [line.rstrip() for line in text.getvalue().splitlines()]
        return "\n".join([*lines, *(f"{row['run']}: {row['failure']}" for row in rows if "failure" in row)])

    def write_results(self) -> str:
        """Writes `results.csv` and the same as JSON into the sweep's directory; returns the path of the CSV.

        Raises:
          OSError: they can't be written.
        """
        rows = self.results()
        settings = dict.fromkeys(name for trial in self._wanted for name in trial.settings)
        table = io.StringIO()
        writer = csv.DictWriter(table, ["run", *settings, "state", *_REACHED, "failure"], lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        path = os.path.join(self._directory, "results")
        for ending, text in (("csv", table.getvalue()), ("json", json.dumps(rows, indent=2) + "\n")):
            with complete_or_absent(f"{path}.{ending}") as file:
                file.write(text.encode())
        return f"{path}.csv"


def _reached(rows: Sequence[dict[str, float]]) -> dict[str, float]:
    if not rows:
        return {}
    reached = {"env_frames": rows[-1]["env_frames"], "hours": rows[-1]["seconds"] / 3600}
    returns = [row["episode_return"] for row in rows if "episode_return" in row]
    evaluations = [row["eval/episode_return"] for row in rows if "eval/episode_return" in row]
    if returns:
        reached |= {"last_return": returns[-1], "best_return": max(returns)}
    if evaluations:
        reached["last_evaluation"] = evaluations[-1]
    return reached
