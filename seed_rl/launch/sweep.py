"""Runs of one experiment with different settings and seeds, in turn or several at a time, and what they reached.

Each is a `seed_rl train` of its own with a log directory of its own below the sweep's: started again, a sweep goes on
where it was, and runs that are finished are not run again.
"""

from __future__ import annotations

import csv
import itertools
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from seed_rl.learner import metrics

RESULTS = "results.csv"
_COLUMNS = ("run", "exit_code", "env_frames", "hours", "last_return", "best_return", "last_evaluation")
_POLL_SECONDS = 0.2
_STOP_SECONDS = 60.0


class BadGrid(ValueError):
    """A setting of a sweep that can't be read; one sentence."""


class Trial(NamedTuple):
    """One run of a sweep."""

    name: str
    """Of its log directory."""
    bindings: tuple[str, ...]
    """Of gin, besides those of all."""


def trials(grid: Sequence[str], seeds: Sequence[int]) -> list[Trial]:
    """Every combination of the values, with every seed.

    Args:
      grid: gin bindings with several values, such as `VTrace.entropy_cost=0.01,0.001`.
      seeds: of the experiment.

    Raises:
      BadGrid: not of this form, or a name twice.
    """
    settings = [_setting(binding) for binding in grid]
    names = [name for name, _ in settings]
    if len(set(names)) < len(names):
        raise BadGrid(f"a setting may be given once, got {', '.join(names)}")
    found = []
    for values in itertools.product(*(values for _, values in settings)):
        for seed in seeds:
            chosen = list(zip(names, values, strict=True))
            parts = [f"{name.rpartition('.')[2]}={value}" for name, value in chosen] + [f"seed={seed}"]
            bindings = [f"{name} = {value}" for name, value in [*chosen, ("Experiment.seed", seed)]]
            found.append(Trial(re.sub(r"[^\w=.+-]", "", "_".join(parts)), tuple(bindings)))
    return found


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
        self._waiting = list(wanted)
        self._wanted = list(wanted)
        self._arguments = list(arguments)
        self._directory = directory
        self._parallel = parallel
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._codes: dict[str, int] = {}

    def run(self, stopped: Callable[[], bool], say: Callable[[str], None]) -> int:
        """Runs all; the exit code is the first that is not 0.

        Args:
          stopped: asked now and then; once true, the runs that are going on save a checkpoint and end.
          say: told in a line of each run that begins or ends.
        """
        try:
            while (self._waiting or self._running) and not stopped():
                while self._waiting and len(self._running) < self._parallel:
                    self._start(self._waiting.pop(0), say)
                self._collect(say)
                time.sleep(_POLL_SECONDS)
        finally:
            self._stop()
        return next((code for code in self._codes.values() if code), 0)

    def _start(self, trial: Trial, say: Callable[[str], None]) -> None:
        logdir = os.path.join(self._directory, trial.name)
        os.makedirs(logdir, exist_ok=True)
        bindings = [f"--gin_param={binding}" for binding in trial.bindings]
        command = [sys.executable, "-m", "seed_rl", "train", f"--logdir={logdir}", *self._arguments, *bindings]
        with open(os.path.join(logdir, "output.log"), "ab") as output:
            # A group of its own: Ctrl-C comes to this process only, which then ends the runs in order.
            self._running[trial.name] = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
            )
        say(f"begins: {trial.name}")

    def _collect(self, say: Callable[[str], None]) -> None:
        for name, process in list(self._running.items()):
            code = process.poll()
            if code is None:
                continue
            del self._running[name]
            self._codes[name] = code
            logdir = os.path.join(self._directory, name)
            say(f"ends: {name}" if code == 0 else f"failed with {code}: {name}; {_last_words(logdir)}")

    def _stop(self) -> None:
        for process in self._running.values():
            process.send_signal(signal.SIGINT)
        deadline = time.monotonic() + _STOP_SECONDS
        for name, process in self._running.items():
            try:
                self._codes[name] = process.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                self._codes[name] = process.wait()
        self._running.clear()

    def results(self) -> list[dict[str, object]]:
        """A row for each trial that has begun, the best last return first."""
        rows = []
        for trial in self._wanted:
            logdir = os.path.join(self._directory, trial.name)
            measured = metrics.read(logdir) if os.path.exists(os.path.join(logdir, metrics.FILE)) else []
            if measured:
                rows.append({"run": trial.name, "exit_code": self._codes.get(trial.name), **_reached(measured)})
        return sorted(rows, key=lambda row: -float(row.get("last_return", "-inf")))  # type: ignore[arg-type]

    def table(self) -> str:
        """The results for people, at most 100 columns wide."""
        rows = self.results()
        if not rows:
            return "no run has brought metrics yet"
        widest = min(50, max(len(str(row["run"])) for row in rows))
        heads = f"{'run':{widest}} {'frames':>10} {'hours':>6} {'return':>9} {'best':>9}"
        lines = [heads + (f" {'eval':>9}" if any("last_evaluation" in row for row in rows) else "")]
        for row in rows:
            name = str(row["run"])[-widest:]
            numbers = [f"{row['env_frames']:>10,.0f}", f"{row['hours']:>6.2f}"]
            numbers += [
                f"{row[key]:>9.2f}" if key in row else f"{'':9}"
                for key in ("last_return", "best_return", "last_evaluation")
            ]
            lines.append(f"{name:{widest}} {' '.join(numbers)}".rstrip())
        return "\n".join(lines)

    def write_results(self) -> str:
        """Writes the rows as CSV into the sweep's directory; returns the path."""
        path = os.path.join(self._directory, RESULTS)
        with open(path, "w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, _COLUMNS, lineterminator="\n")
            writer.writeheader()
            writer.writerows(self.results())
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


def _last_words(logdir: str) -> str:
    with open(os.path.join(logdir, "output.log"), encoding="utf-8", errors="replace") as file:
        lines = [line.strip() for line in file if line.strip()]
    return lines[-1] if lines else "it said nothing"
