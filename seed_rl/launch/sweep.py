"""Runs of one experiment with different settings and seeds, one after the other or several at a time.

Each is a `seed_rl train` with a log directory of its own inside the sweep's. A sweep that is started again skips
finished runs and continues the others from their checkpoints.
"""

from __future__ import annotations

import contextlib
import csv
import dataclasses
import hashlib
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
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Table

from seed_rl.files import reason
from seed_rl.launch.cli import UsageError
from seed_rl.launch.display import duration, short
from seed_rl.launch.local_actors import run_logged
from seed_rl.reporting import metrics

_REACHED: dict[str, tuple[str, Callable[[float], str]]] = {
    "env_frames": ("frames", short),
    "hours": ("time", lambda hours: duration(3600 * hours)),
    "last_return": ("return", "{:.2f}".format),
    "best_return": ("best", "{:.2f}".format),
    "last_evaluation": ("eval", "{:.2f}".format),
}
"""Columns of the results, with their heads in the table and their texts there."""
_FINISHED = "finished.json"
"""In the directory of a finished run: its arguments. With others, such as more frames, it goes on."""
_MAX_NAME = 120  # characters; the names of directories have at most 255 bytes
_TABLE_COLUMNS = 100
_POLL_SECONDS = 0.2
_STOP_SECONDS = 60.0


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


def seeds_of(texts: Sequence[str]) -> list[int]:
    """Seeds as `--seeds` gives them: their number n, for 1 to n, or several as they are.

    Raises:
      UsageError: one is no whole number, or there would be none.
    """
    if not all(text.isdecimal() for text in texts):
        raise UsageError(f"--seeds takes whole numbers, got {','.join(texts)}")
    given = [int(text) for text in texts]
    if given in ([], [0]):
        raise UsageError("--seeds takes at least one run, or a list of seeds, got 0")
    return given if len(given) > 1 else list(range(1, given[0] + 1))


def trials(grid: Sequence[str], seeds: Sequence[int]) -> list[Trial]:
    """Every combination of the values, with every seed.

    Args:
      grid: gin bindings with several values, such as `VTrace.entropy_cost=0.01,0.001`. A value that is given twice
        counts once, as does a seed.
      seeds: of the experiment.

    Raises:
      UsageError: a binding of another form, or of a setting that is given already.
    """
    values: dict[str, list[str]] = {}
    for binding in grid:
        name, _, text = binding.partition("=")
        name, choices = name.strip(), split(text)
        if not name or not all(choices):
            raise UsageError(f"expected NAME=VALUE,VALUE,... such as VTrace.entropy_cost=0.01,0.001, got {binding!r}")
        if name in values:
            raise UsageError(f"a setting may be given once, got {name} again")
        values[name] = choices
    values["Experiment.seed"] = [str(seed) for seed in seeds]
    combinations = itertools.product(*map(dict.fromkeys, values.values()))
    return [_trial(dict(zip(values, chosen, strict=True))) for chosen in combinations]


def _trial(settings: dict[str, str]) -> Trial:
    name = "_".join(f"{name.rpartition('.')[2]}={value}" for name, value in settings.items())
    plain = re.sub(r"[^\w=.+-]+", "-", name)
    if plain != name or len(plain) > _MAX_NAME:  # two different names may become equal
        plain = f"{plain[:_MAX_NAME]}_{hashlib.sha256(name.encode()).hexdigest()[:6]}"
    return Trial(plain, settings)


def split(text: str) -> list[str]:
    """The parts between commas outside of brackets and quotes, stripped."""
    parts: list[str] = []
    for piece in text.split(","):
        if parts and _is_open(parts[-1]):
            parts[-1] += f",{piece}"
        else:
            parts.append(piece)
    return [part.strip() for part in parts]


def _is_open(text: str) -> bool:
    """Whether a bracket or quote isn't closed yet."""
    unquoted = re.sub(r"'[^']*'|\"[^\"]*\"", "", text)
    return bool(re.search("['\"]", unquoted)) or any(
        unquoted.count(a) > unquoted.count(b) for a, b in ("()", "[]", "{}")
    )


@dataclasses.dataclass(eq=False)
class Sweep:
    """Runs trials, `parallel` at a time."""

    wanted: Sequence[Trial]
    """The runs, in this order."""
    arguments: Sequence[str]
    """Of `seed_rl train`, for all."""
    directory: str
    """Holds the log directories; made if need be."""
    parallel: int
    """Runs at a time."""

    def __post_init__(self) -> None:
        """
        Raises:
          UsageError: the directory can't be made.
        """
        self._failures: dict[str, str] = {}
        try:
            os.makedirs(self.directory, exist_ok=True)
        except OSError as error:
            raise UsageError(f"--logdir {self.directory} can't be used: {error.strerror}") from error

    def run(self, stopped: Callable[[], bool], say: Callable[[str], None]) -> int:
        """Runs all that are not finished yet; the exit code is the first that is not 0.

        Args:
          stopped: polled by threads; once true, the runs in progress save a checkpoint and end.
          say: gets a line for each run that begins or ends.
        """
        waiting = [trial for trial in self.wanted if not self._is_finished(trial)]
        say(f"{len(waiting)} of {len(self.wanted)} runs to do, {self.parallel} at a time, in {self.directory}")
        with ThreadPoolExecutor(self.parallel) as pool:
            codes = list(pool.map(lambda trial: self._train(trial, stopped, say), waiting))
        return next(filter(None, codes), 0)

    def _train(self, trial: Trial, stopped: Callable[[], bool], say: Callable[[str], None]) -> int:
        """Runs a trial to its end; returns its exit code."""
        if stopped():
            return 0
        title = f"{trial.name} ({self.wanted.index(trial) + 1} of {len(self.wanted)})"
        logdir = self._path(trial)
        command = [sys.executable, "-m", "seed_rl", "train", f"--logdir={logdir}", *self._arguments_of(trial)]
        started = time.monotonic()
        try:
            say(f"begins: {title}")
            code, ended = run_logged(command, self._path(trial, "output.log"), lambda process: _wait(process, stopped))
            if stopped():
                return code
            if not code:
                with open(self._path(trial, _FINISHED), "w", encoding="utf-8") as file:
                    file.write(json.dumps(self._arguments_of(trial)))
        except OSError as error:
            code, ended = 1, f"{error.filename} can't be used: {reason(error)}"
        if code:
            self._failures[trial.name] = ended
            say(f"fails: {title}: {ended}")
        else:
            last_return = self._row(trial).get("last_return")
            returned = "" if last_return is None else f", return {last_return:.2f}"
            say(f"ends: {title} after {duration(time.monotonic() - started)}{returned}")
        return code

    def _path(self, trial: Trial, *names: str) -> str:
        return os.path.join(self.directory, trial.name, *names)

    def _arguments_of(self, trial: Trial) -> list[str]:
        return [*self.arguments, *(f"--gin_param={binding}" for binding in trial.bindings)]

    def _is_finished(self, trial: Trial) -> bool:
        with contextlib.suppress(FileNotFoundError), open(self._path(trial, _FINISHED), encoding="utf-8") as file:
            return file.read() == json.dumps(self._arguments_of(trial))
        return False

    def results(self) -> list[dict[str, Any]]:
        """A row for each trial, the best last return first: its settings, state, frames and returns."""
        return sorted(map(self._row, self.wanted), key=lambda row: -row.get("last_return", -math.inf))

    def _row(self, trial: Trial) -> dict[str, Any]:
        row: dict[str, Any] = {"run": trial.name, **trial.settings, "state": "waiting"}
        if os.path.isdir(self._path(trial)):
            row["state"] = "finished" if self._is_finished(trial) else "unfinished"
        if os.path.exists(self._path(trial, metrics.FILE)):
            row |= _reached(metrics.read(self._path(trial)))
        if trial.name in self._failures:
            row |= {"state": "failed", "failure": self._failures[trial.name]}
        return row

    def table(self) -> str:
        """The results for people, at most 100 columns wide; below the table why runs failed."""
        rows = self.results()
        columns = {key: column for key, column in _REACHED.items() if any(key in row for row in rows)}
        table = Table("run", "state", box=None, pad_edge=False, header_style="")
        table.columns[0].overflow = "fold"
        for head, _ in columns.values():
            table.add_column(head, justify="right", no_wrap=True)
        for row in rows:
            reached = (text(row[key]) if key in row else "" for key, (_, text) in columns.items())
            table.add_row(row["run"], row["state"], *reached)
        console = Console(width=_TABLE_COLUMNS, color_system=None, markup=False)
        with console.capture() as capture:
            console.print(table)
        lines = [line.rstrip() for line in capture.get().splitlines()]
        return "\n".join([*lines, *(f"{row['run']}: {row['failure']}" for row in rows if "failure" in row)])

    def write_results(self) -> str:
        """Writes `results.csv` and the same as JSON into the sweep's directory; returns the path of the CSV.

        Raises:
          UsageError: they can't be written.
        """
        rows = self.results()
        path = os.path.join(self.directory, "results.csv")
        settings = dict.fromkeys(name for trial in self.wanted for name in trial.settings)
        try:
            with open(path, "w", encoding="utf-8", newline="") as file:
                table = csv.DictWriter(file, ["run", *settings, "state", *_REACHED, "failure"], lineterminator="\n")
                table.writeheader()
                table.writerows(rows)
            with open(os.path.join(self.directory, "results.json"), "w", encoding="utf-8") as file:
                json.dump(rows, file, indent=2)
        except OSError as error:
            raise UsageError(f"the results in {self.directory} can't be written: {error.strerror}") from error
        return path


def _wait(process: subprocess.Popen[bytes], stopped: Callable[[], bool]) -> int:
    """Waits for a run, which is interrupted once `stopped`; returns its exit code."""
    while not stopped():
        with contextlib.suppress(subprocess.TimeoutExpired):
            return process.wait(_POLL_SECONDS)
    process.send_signal(signal.SIGINT)
    try:
        return process.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()


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
