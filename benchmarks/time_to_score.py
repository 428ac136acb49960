"""Frames and minutes until experiments reach certain returns, over several sequential seeds.

A run ends when it has reached the highest threshold or used up its budget of training time, not counting start-up. A
threshold is reached at the first row of metrics with such a mean return, over the last 100 episodes or, with evaluation
environments, over the last 30 evaluation episodes. For the median, a seed that doesn't reach it is infinitely late.

Before each start of a run, the rate of its environments alone, with random actions, and the load average are measured,
to distinguish machines and busy hours.

The same command with the same log directory continues: it skips finished runs and continues the others from their
checkpoints. Each run's curve is written next to the JSON file, as CSV.
"""

import argparse
import math
import os
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from benchmarks import flags
from benchmarks.env import rate_of
from benchmarks.report import median, number, spread, write_table
from benchmarks.runs import BenchmarkRun, train_in_turn
from seed_rl.extras.studies.runs import Trial
from seed_rl.extras.studies.sweep import trials
from seed_rl.reporting import metrics
from seed_rl.reporting.text import columns

QUICK = {"configs": "catch/vtrace", "seeds": 1, "minutes": 0.05, "thresholds": "-1,2", "metrics_interval": 0.2}

_LATE_SECONDS = 600.0  # extra time for start-up and the last checkpoint


def add_arguments(parser: argparse.ArgumentParser) -> None:
    names = flags.listed(str)
    parser.add_argument("--configs", type=names, default="atari/vtrace_pong", help="names of gin files, or paths")
    parser.add_argument("--grid", action="append", default=[], help="NAME=VALUE,VALUE,... as for seed_rl sweep")
    parser.add_argument("--seeds", type=flags.count, default=3, help="number of runs per combination, seeded 1, 2, ...")
    parser.add_argument("--minutes", type=flags.at_least(0.01), default=45.0, help="time to train a run, minutes")
    returns = flags.listed(flags.at_least(-math.inf))
    parser.add_argument("--thresholds", type=returns, default="15,18", help="returns to reach, separated by commas")
    parser.add_argument("--metrics_interval", type=flags.seconds, default=5.0, help="seconds between rows of metrics")
    parser.add_argument("--logdir", help="parent of the log directories; default: time_to_score beside the JSON file")


def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    """Train the unfinished runs; return frames and minutes of each experiment to each threshold."""
    directory = arguments.logdir or os.path.join(arguments.output, "time_to_score")
    wanted = trials(arguments.grid, range(1, arguments.seeds + 1))
    # Mistakes are reported before the first run.
    races = [_Race(config, trial, directory, arguments) for config in arguments.configs for trial in wanted]
    train_in_turn(races)
    groups: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for race in races:
        groups.setdefault(race.group, []).append(race.result())
    return {"experiments": [_summary(*each, sorted(arguments.thresholds)) for each in groups.items()]}


class _Race(BenchmarkRun):
    """A run that ends when it has reached all thresholds."""

    def __init__(self, config: str, trial: Trial, directory: str, arguments: argparse.Namespace):
        place = os.path.join(directory, os.path.splitext(config)[0].strip("./").replace("/", "_"))
        super().__init__(config, [f"Logs.metrics_interval_s={arguments.metrics_interval}"], trial, place)
        self.title = f"{config} {trial.name}"
        settings = {name: value for name, value in trial.settings.items() if name != "Experiment.seed"}
        self.group = (config, *(f"{name} = {value}" for name, value in settings.items()))
        self._thresholds = sorted(arguments.thresholds)
        self._seconds, self._deadline = 60 * arguments.minutes, math.inf
        self._env_seconds = min(3.0, self._seconds / 20)
        self._curve = os.path.join(arguments.output, f"{os.path.basename(place)}_{trial.name}.csv")
        self._metric = self.experiment.score

    def is_done(self) -> bool:
        """Return whether the run has used up its frames or its minutes, or reached the highest threshold."""
        rows = self.rows()
        spent = rows[-1]["seconds"] if rows else 0.0
        reached = self._first(rows, self._thresholds[-1]) is not None
        return reached or spent >= self._seconds or self.is_finished()

    def _first(self, rows: Sequence[Mapping[str, float]], threshold: float) -> dict[str, float] | None:
        return first(rows, self._metric, self.experiment.num_scored_envs, threshold)

    def begin(self) -> None:
        """Note the start, and until when to wait for the run."""
        super().begin()
        self._deadline = time.monotonic() + self._seconds + _LATE_SECONDS

    def circumstances(self) -> dict[str, Any]:
        """Return date, commit, load average, and agent steps per second of the environments alone."""
        return {**super().circumstances(), "env_steps": rate_of(self.experiment, self._env_seconds)}

    def is_over(self) -> bool:
        return self.is_done() or time.monotonic() > self._deadline

    def end(self, say: Callable[[str], None]) -> None:
        """Say how far the run has come, and write its curve."""
        result = self.result()
        best = "none" if result["best_return"] is None else f"{result['best_return']:.2f}"
        say(f"{self.title}: {result['frames']:,} frames in {result['minutes']:.1f} minutes, best return {best}")
        if self.rows():
            write_table(self.rows(), self._curve)

    def result(self) -> dict[str, Any]:
        """Summarise the run: seed, frames, minutes, returns, times of thresholds, starts, reason for a failure."""
        rows, failure = self.rows(), self.failure
        if not failure and not self.is_done():
            failure = f"stopped {_LATE_SECONDS / 60:.0f} minutes after its budget, most of which it did not train"
        returns = [row[self._metric] for row in rows if self._metric in row]
        return {
            "seed": self.experiment.seed,
            "metric": self._metric,
            "frames": rows[-1]["env_frames"] if rows else 0,
            "minutes": rows[-1]["seconds"] / 60 if rows else 0.0,
            "last_return": returns[-1] if returns else None,
            "best_return": max(returns, default=None),
            "reached": [self._first(rows, threshold) for threshold in self._thresholds],
            "starts": self.starts(),
            **({"failure": failure} if failure else {}),
        }


def first(rows: Sequence[Mapping[str, float]], metric: str, num_envs: int, threshold: float) -> dict[str, float] | None:
    """Return `frames` and `minutes` of the first row of metrics whose settled mean return reaches a threshold, or None.

    The mean return is that of `num_envs` environments.
    """
    for row in rows:
        if metrics.settled_return(row, metric, num_envs) >= threshold:
            return {"frames": row["env_frames"], "minutes": row["seconds"] / 60}
    return None


def _summary(group: Sequence[str], rows: Sequence[Mapping[str, Any]], thresholds: Sequence[float]) -> dict[str, Any]:
    return {
        "config": group[0],
        "settings": list(group[1:]),
        "metric": rows[0]["metric"],
        "env_steps": spread([start["env_steps"] for row in rows for start in row["starts"]]),
        "thresholds": [
            {"threshold": threshold, **over_seeds([row["reached"][index] for row in rows])}
            for index, threshold in enumerate(thresholds)
        ],
        "runs": list(rows),
    }


def over_seeds(reached: Sequence[Mapping[str, float] | None]) -> dict[str, Any]:
    """Count the seeds that `reached` a threshold; `median` and `worst` of frames and minutes are None if infinite."""
    result: dict[str, Any] = {"reached": sum(each is not None for each in reached)}
    for unit in ("frames", "minutes"):
        values = [math.inf if each is None else each[unit] for each in reached]
        found = {"median": statistics.median(values), "worst": max(values)}
        result[unit] = {name: value if math.isfinite(value) else None for name, value in found.items()}
    return result


def table(result: dict[str, Any]) -> str:
    """Format medians and worst seeds by experiment and threshold, followed by the failed seeds."""
    rows: list[list[str]] = []
    failures = []
    for experiment in result["experiments"]:
        config, runs = experiment["config"], experiment["runs"]
        for each in experiment["thresholds"]:
            cells = [f"{each['threshold']:g}", f"{each['reached']} of {len(runs)}"]
            for unit, scale in {"frames": 1e6, "minutes": 1.0}.items():
                values = (each[unit][which] for which in ("median", "worst"))
                cells += ["-" if value is None else number(value / scale) for value in values]
            cells.append(median(experiment["env_steps"]))
            rows += [[config, *cells], *([f"  {each}", *[""] * len(cells)] for each in experiment["settings"])]
        failures += [f"{config}, seed {run['seed']}: {run['failure']}" for run in runs if "failure" in run]
    heads = ["experiment", "return", "seeds", "M frames\nmedian", "worst", "minutes\nmedian", "worst", "env\nsteps/s"]
    return "\n".join([columns(heads, rows), *failures])
