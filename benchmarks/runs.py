"""Trains runs sequentially. After a kill the same command continues, because each run has its own log directory."""

import datetime
import json
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from benchmarks import BenchmarkError
from benchmarks.report import commit
from seed_rl.experiment import config_files
from seed_rl.extras.studies.runs import Trial
from seed_rl.extras.studies.sweep import Sweep
from seed_rl.reporting import metrics
from seed_rl.system.signals import signals

_STARTS = "starts.jsonl"


class BenchmarkRun:
    """An experiment in a log directory."""

    def __init__(self, config: str, bindings: Sequence[str], trial: Trial, directory: str):
        """
        Args:
          config: name of a shipped gin file, or a path.
          bindings: gin bindings, NAME=VALUE.
          trial: further bindings, and the name of the log directory.
          directory: parent of the log directory.

        Raises:
          ConfigError: the file or a setting does not exist.
          BenchmarkError: the log directory holds a run with another configuration.
        """
        self.experiment = config_files.load([config], [*bindings, *trial.bindings])
        self.logdir = os.path.join(directory, trial.name)
        found = config_files.differences_from_saved(self.experiment, self.logdir)
        if found:
            raise BenchmarkError(f"{self.logdir} holds a run with another configuration: {'; '.join(found)}")
        self.arguments = [f"--gin_file={config}", *(f"--gin_param={binding}" for binding in bindings)]
        self._sweep = Sweep([trial], self.arguments, directory, parallel=1)

    def rows(self) -> list[dict[str, float]]:
        """Return the rows of metrics so far."""
        return metrics.read(self.logdir) if os.path.exists(os.path.join(self.logdir, metrics.FILE)) else []

    def is_finished(self) -> bool:
        """Return whether all frames are done."""
        return bool(self._result()["state"] == "finished")

    def failure(self) -> str | None:
        """Return the reason for a failure, or None."""
        return self._result().get("failure")

    def _result(self) -> dict[str, Any]:
        return self._sweep.results()[0]

    def train(self, stopped: Callable[[], bool]) -> None:
        """Train, starting from the last checkpoint if any, until the run has ended or `stopped` is true."""
        if self.is_finished():
            return
        os.makedirs(self.logdir, exist_ok=True)
        with open(os.path.join(self.logdir, _STARTS), "a", encoding="utf-8") as file:
            file.write(json.dumps(self._start()) + "\n")
        self._sweep.run(stopped, lambda text: None)

    def _start(self) -> dict[str, Any]:
        return {
            "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            "commit": commit(),
            "load": os.getloadavg()[0],
        }

    def starts(self) -> list[dict[str, Any]]:
        """Return date, commit and load average of the machine at each start."""
        with open(os.path.join(self.logdir, _STARTS), encoding="utf-8") as file:
            return [json.loads(line) for line in file]


R = TypeVar("R", bound=BenchmarkRun)


def in_turn(runs: Sequence[R]) -> Iterator[R]:
    """Train runs sequentially, and yield each when it has ended.

    Raises:
      BenchmarkError: a signal interrupted a run, which has saved a checkpoint.
    """
    with signals() as stopped:
        for run in runs:
            run.train(stopped.is_set)
            if stopped.is_set():
                raise BenchmarkError("interrupted; the same command continues")
            yield run
