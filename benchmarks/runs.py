"""Runs that a benchmark trains in the queue of `seed_rl sweep`, so that the same command continues after a kill."""

import abc
import datetime
import json
import os
import time
from collections.abc import Sequence
from typing import Any

from benchmarks import BenchmarkError
from benchmarks.report import commit
from seed_rl.experiment import config_files
from seed_rl.extras.studies.runs import Run, Trial, train_all
from seed_rl.system.signals import signals

_STARTS = "starts.jsonl"


class BenchmarkRun(Run):
    """An experiment in a log directory, which notes when it was started."""

    def __init__(self, config: str, bindings: Sequence[str], trial: Trial, directory: str):
        """Load a gin file with bindings NAME=VALUE and those of a trial, which also names the log directory.

        Raises:
          ConfigError: the file or a setting does not exist.
          BenchmarkError: the log directory holds a run with another configuration.
        """
        self.experiment = config_files.load([config], [*bindings, *trial.bindings])
        arguments = [f"--gin_file={config}", *(f"--gin_param={binding}" for binding in bindings)]
        super().__init__(trial, arguments, directory)
        found = config_files.differences_from_saved(self.experiment, self.logdir)
        if found:
            raise BenchmarkError(f"{self.logdir} holds a run with another configuration: {'; '.join(found)}")

    @abc.abstractmethod
    def is_done(self) -> bool:
        """Return whether nothing is left to train."""

    def begin(self) -> None:
        os.makedirs(self.logdir, exist_ok=True)
        with open(os.path.join(self.logdir, _STARTS), "a", encoding="utf-8") as file:
            file.write(json.dumps(self.circumstances()) + "\n")

    def circumstances(self) -> dict[str, Any]:
        """Return date, commit and load average of the machine."""
        date = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        return {"date": date, "commit": commit(), "load": os.getloadavg()[0]}

    def starts(self) -> list[dict[str, Any]]:
        """Return the circumstances of each start."""
        with open(os.path.join(self.logdir, _STARTS), encoding="utf-8") as file:
            return [json.loads(line) for line in file]


def train_in_turn(runs: Sequence[BenchmarkRun]) -> None:
    """Train the runs that are not done, one after another.

    Raises:
      BenchmarkError: a signal interrupted a run, which has saved a checkpoint.
    """

    def say(text: str) -> None:
        print(f"{time.strftime('%H:%M:%S')} {text}", flush=True)

    waiting = [run for run in runs if not run.is_done()]
    say(f"{len(waiting)} of {len(runs)} runs left")
    with signals() as stopped:
        train_all(waiting, stopped.is_set, say)
        if stopped.is_set():
            raise BenchmarkError("interrupted; the same command continues")
