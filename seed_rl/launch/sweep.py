"""Runs of one experiment with different settings and seeds, in turn or several at a time, and what they reached.

Each is a `seed_rl train` of its own with a log directory of its own below the sweep's. Started again, a sweep goes on
where it was: runs that are finished are passed over, the others continue from their checkpoints.
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
from rich.text import Text

from seed_rl.files import complete_or_absent, reason
from seed_rl.launch.cli import UsageError
from seed_rl.launch.formatting import duration, short
from seed_rl.launch.local_actors import how_it_ended
from seed_rl.reporting import metrics

RESULTS = "results.csv"
"""In the sweep's directory; `results.json` beside it holds the same."""

_FINISHED = "finished.json"  # in a run's directory: the command that ran it to its end
_OUTPUT = "output.log"
_REACHED = ("env_frames", "hours", "last_return", "best_return", "last_evaluation")
_LONGEST_NAME = 120  # characters; the names of directories have 255 bytes at the most
_WIDTH = 100  # of the table, columns
_POLL_SECONDS = 0.2
_STOP_SECONDS = 60.0


class BadGrid(ValueError):
    """A setting of a sweep that can't be read; one sentence."""


class Trial(NamedTuple):
    """One run of a sweep."""

    name: str
    """Of its log directory."""
    settings: dict[str, str]
    """Value of each gin parameter in which the runs differ, the seed included."""

    @property
    def bindings(self) -> list[str]:
        """Of gin, besides those of all."""
        return [f"{name} = {value}" for name, value in self.settings.items()]


def trials(grid: Sequence[str], seeds: Sequence[int]) -> list[Trial]:
    """Every combination of the values, with every seed.

    Args:
      grid: gin bindings with several values, such as `VTrace.entropy_cost=0.01,0.001`.
      seeds: of the experiment.

    Raises:
      BadGrid: not of this form, or something twice.
    """
    settings = [_setting(binding) for binding in grid]
    names = [name for name, _ in settings]
    if len(set(names)) < len(names):
        raise BadGrid(f"a setting may be given once, got {', '.join(names)}")
    found = [
        _trial({**dict(zip(names, values, strict=True)), "Experiment.seed": str(seed)})
        for values in itertools.product(*(values for _, values in settings))
        for seed in seeds
    ]
    for trial in found:
        if found.count(trial) > 1:
            raise BadGrid(f"{trial.name} would run {found.count(trial)} times: give each value and each seed once")
    return found


def _trial(settings: dict[str, str]) -> Trial:
    name = "_".join(f"{name.rpartition('.')[2]}={value}" for name, value in settings.items())
    plain = re.sub(r"[^\w=.+-]+", "-", name)
    if plain != name or len(plain) > _LONGEST_NAME:  # then two may be the same without being so
        plain = f"{plain[:_LONGEST_NAME]}_{hashlib.sha256(name.encode()).hexdigest()[:6]}"
    return Trial(plain, settings)


def _setting(binding: str) -> tuple[str, list[str]]:
    name, equals, text = binding.partition("=")
    values = split(text)
    if not equals or not name.strip() or not all(values):
        raise BadGrid(f"expected NAME=VALUE,VALUE,... such as VTrace.entropy_cost=0.01,0.001, got {binding!r}")
    return name.strip(), values


def split(text: str) -> list[str]:
    """The parts between commas that are in no bracket and no quotes, stripped."""
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


class _Running(NamedTuple):
    """A run that is under way."""

    trial: Trial
    process: subprocess.Popen[bytes]
    output_begins: int
    """Where in its output file, bytes."""
    began: float


class Sweep:
    """Runs trials, `parallel` at a time."""

    def __init__(self, wanted: Sequence[Trial], arguments: Sequence[str], directory: str, parallel: int):
        """
        Args:
          wanted: what to run, in this order.
          arguments: of `seed_rl train`, for all.
          directory: where the log directories go.
          parallel: runs at a time.
        """
        self._wanted = list(wanted)
        self._arguments = list(arguments)
        self._directory = directory
        self._parallel = parallel
        self._running: list[_Running] = []
        self._codes: dict[str, int] = {}
        self._failures: dict[str, str] = {}

    def run(self, stopped: Callable[[], bool], say: Callable[[str], None]) -> int:
        """Runs all that are not finished yet; the exit code is the first that is not 0.

        Args:
          stopped: asked now and then; once true, the runs that are going on save a checkpoint and end.
          say: told in a line of each run that begins or ends.
        """
        waiting = [trial for trial in self._wanted if not self._is_finished(trial)]
        passed_over = len(self._wanted) - len(waiting)
        if passed_over:
            say(f"{passed_over} of {len(self._wanted)} runs are finished already")
        try:
            while (waiting or self._running) and not stopped():
                while waiting and len(self._running) < self._parallel:
                    self._start(waiting.pop(0), say)
                self._collect(say)
                time.sleep(_POLL_SECONDS)
        finally:
            self._stop()
        return next((code for code in self._codes.values() if code), 0)

    def _command(self, trial: Trial) -> list[str]:
        bindings = [f"--gin_param={binding}" for binding in trial.bindings]
        return [*self._arguments, *bindings]

    def _logdir(self, trial: Trial) -> str:
        return os.path.join(self._directory, trial.name)

    def _is_finished(self, trial: Trial) -> bool:
        path = os.path.join(self._logdir(trial), _FINISHED)
        if not os.path.exists(path):
            return False
        with open(path, encoding="utf-8") as file:
            return json.load(file) == self._command(trial)  # with other arguments, as more frames, it goes on

    def _start(self, trial: Trial, say: Callable[[str], None]) -> None:
        logdir = self._logdir(trial)
        command = [sys.executable, "-m", "seed_rl", "train", f"--logdir={logdir}", *self._command(trial)]
        try:
            os.makedirs(logdir, exist_ok=True)
            with open(os.path.join(logdir, _OUTPUT), "ab") as output:
                # A session of its own: Ctrl-C comes to this process only, which then ends the runs in order.
                process = subprocess.Popen(
                    command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
                )
                self._running.append(_Running(trial, process, output.tell(), time.monotonic()))
            say(f"begins: {self._place(trial)}")
        except OSError as error:
            self._fail(trial, 1, f"it can't be started: {reason(error)}", say)

    def _place(self, trial: Trial) -> str:
        return f"{trial.name} ({self._wanted.index(trial) + 1} of {len(self._wanted)})"

    def _collect(self, say: Callable[[str], None]) -> None:
        for running in list(self._running):
            trial, code = running.trial, running.process.poll()
            if code is None:
                continue
            self._running.remove(running)
            logdir = self._logdir(trial)
            if code:
                ended = how_it_ended(code, os.path.join(logdir, _OUTPUT), running.output_begins)
                self._fail(trial, code, ended, say)
                continue
            self._codes[trial.name] = code
            reached = self._row(trial).get("last_return")
            returned = "" if reached is None else f", return {reached:.2f}"
            say(f"ends: {self._place(trial)} after {duration(time.monotonic() - running.began)}{returned}")
            self._mark_finished(trial, say)

    def _mark_finished(self, trial: Trial, say: Callable[[str], None]) -> None:
        path = os.path.join(self._logdir(trial), _FINISHED)
        try:
            with complete_or_absent(path) as file:
                file.write(json.dumps(self._command(trial)).encode())
        except OSError as error:
            say(f"{path} can't be written ({reason(error)}): started again, the sweep will look into this run anew")

    def _fail(self, trial: Trial, code: int, why: str, say: Callable[[str], None]) -> None:
        self._codes[trial.name] = code
        self._failures[trial.name] = why
        say(f"fails: {self._place(trial)}: {why}")

    def _stop(self) -> None:
        for running in self._running:
            running.process.send_signal(signal.SIGINT)
        deadline = time.monotonic() + _STOP_SECONDS
        for running in self._running:
            try:
                running.process.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                running.process.kill()
            self._codes[running.trial.name] = running.process.wait()
        self._running.clear()

    def results(self) -> list[dict[str, Any]]:
        """A row for each trial, the best last return first: what it is, how it ended and what it reached."""
        rows = [self._row(trial) for trial in self._wanted]
        return sorted(rows, key=lambda row: -row.get("last_return", -math.inf))

    def _row(self, trial: Trial) -> dict[str, Any]:
        row: dict[str, Any] = {"run": trial.name, **trial.settings, "state": self._state(trial)}
        logdir = self._logdir(trial)
        measured = metrics.read(logdir) if os.path.exists(os.path.join(logdir, metrics.FILE)) else []
        if measured:
            row |= _reached(measured)
        if trial.name in self._failures:
            row["failure"] = self._failures[trial.name]
        return row

    def _state(self, trial: Trial) -> str:
        if trial.name in self._failures:
            return "failed"
        if self._is_finished(trial):
            return "finished"
        return "unfinished" if os.path.isdir(self._logdir(trial)) else "waiting"

    def table(self) -> str:
        """The results for people, at most 100 columns wide; below it why runs failed."""
        rows = self.results()
        heads = ["run", "state", "frames", "time", "return", "best"]
        evaluated = any("last_evaluation" in row for row in rows)
        if evaluated:
            heads.append("eval")
        table = Table(box=None, pad_edge=False, header_style="")
        for head in heads:
            left = head in ("run", "state")
            table.add_column(head, justify="left" if left else "right", overflow="fold", no_wrap=head != "run")
        for row in rows:
            cells = [row["run"], row["state"]]
            cells += [short(row["env_frames"]), duration(3600 * row["hours"])] if "hours" in row else ["", ""]
            returns = ("last_return", "best_return", "last_evaluation")[: 3 if evaluated else 2]
            cells += [f"{row[key]:.2f}" if key in row else "" for key in returns]
            table.add_row(*map(Text, cells))
        text = io.StringIO()
        Console(file=text, width=_WIDTH, color_system=None).print(table)
        lines = [line.rstrip() for line in text.getvalue().splitlines()]
        return "\n".join([*lines, *(f"{row['run']}: {row['failure']}" for row in rows if "failure" in row)])

    def write_results(self) -> str:
        """Writes the rows as CSV and JSON into the sweep's directory; returns the path of the CSV.

        Raises:
          UsageError: they can't be written.
        """
        rows = self.results()
        settings = dict.fromkeys(name for trial in self._wanted for name in trial.settings)
        columns = ["run", *settings, "state", *_REACHED, "failure"]
        table = io.StringIO()
        writer = csv.DictWriter(table, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        path = os.path.join(self._directory, RESULTS)
        try:
            for name, text in ((path, table.getvalue()), (f"{path[:-4]}.json", json.dumps(rows, indent=2) + "\n")):
                with complete_or_absent(name) as file:
                    file.write(text.encode())
        except OSError as error:
            raise UsageError(f"{path} can't be written: {reason(error)}") from error
        return path


def _reached(rows: Sequence[dict[str, float]]) -> dict[str, float]:
    reached = {"env_frames": rows[-1]["env_frames"], "hours": rows[-1]["seconds"] / 3600}
    returns = [row["episode_return"] for row in rows if "episode_return" in row]
    evaluations = [row["eval/episode_return"] for row in rows if "eval/episode_return" in row]
    if returns:
        reached |= {"last_return": returns[-1], "best_return": max(returns)}
    if evaluations:
        reached["last_evaluation"] = evaluations[-1]
    return reached
