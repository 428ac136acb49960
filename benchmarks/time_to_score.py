"""Frames and minutes until experiments reach returns, each over several seeds, one run after another.

A run ends when it has reached the highest threshold or spent its budget of training time, start-up excluded. A
threshold is reached with the first row of metrics whose mean return is as high: over the last 100 episodes, or over the
last 30 evaluation episodes where an experiment has evaluation environments. The median counts a seed that does not
reach it as infinitely late.

Before each start of a run, its environments are measured alone, with random actions: their rate and the load average of
that moment tell machines and busy hours apart.

The same command on the same log directory goes on: it skips the runs that have ended, and continues the others from
their checkpoints. Each run's curve is written beside the JSON file, as CSV.
"""

from __future__ import annotations

import argparse
import math
import os
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from benchmarks import BenchmarkError, flags
from benchmarks.env import env_rates
from benchmarks.report import columns, median, number
from benchmarks.runs import Run, in_turn
from benchmarks.timing import spread
from scripts.record_result import write_table
from seed_rl.cli.main import UsageError
from seed_rl.experiment import Experiment
from seed_rl.reporting import metrics
from seed_rl.studies.sweep import trials
from seed_rl.studies.trial import Trial

QUICK = {"configs": "catch/vtrace", "seeds": 1, "minutes": 0.05, "thresholds": "-1,2", "metrics_interval": 0.2}

_ENV_SECONDS = 3.0
_LATE_SECONDS = 600.0  # for start-up and the last checkpoint


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Its flags."""
    parser.add_argument("--configs", type=_names, default="atari/vtrace_pong", help="gin files, shipped ones or paths")
    parser.add_argument(
        "--grid", action="append", default=[], help="NAME=VALUE,VALUE,... for each, as of seed_rl sweep"
    )
    parser.add_argument("--seeds", type=flags.count, default=3, help="runs of each combination, seeded 1, 2, ...")
    parser.add_argument("--minutes", type=flags.at_least(0.01), default=45.0, help="of training, the budget of a run")
    parser.add_argument("--thresholds", type=_thresholds, default="15,18", help="returns, separated by commas")
    parser.add_argument("--metrics_interval", type=flags.seconds, default=5.0, help="seconds between rows of metrics")
    parser.add_argument("--logdir", help="holds the runs; default: time_to_score in the directory of the JSON file")


def _names(text: str) -> list[str]:
    return text.split(",")


def _thresholds(text: str) -> list[float]:
    parse = flags.at_least(-math.inf)
    return sorted(parse(part) for part in text.split(","))


def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    """Runs what has not ended yet; the frames and minutes of each experiment to each threshold."""
    directory = arguments.logdir or os.path.join(arguments.output, "time_to_score")
    try:
        wanted = trials(arguments.grid, range(1, arguments.seeds + 1))
    except UsageError as error:
        raise BenchmarkError(f"--grid: {error}") from error
    # A mistake is reported before the first run.
    races = [_Race(config, trial, directory, arguments) for config in arguments.configs for trial in wanted]
    groups: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for race in in_turn(races):
        row = race.row()
        print(f"{time.strftime('%H:%M:%S')} {_line(race.name, row)}", flush=True)
        groups.setdefault(race.group, []).append(row)
    return {"experiments": [_summary(group, rows, arguments.thresholds) for group, rows in groups.items()]}


class _Race(Run):
    """A run on its way to the thresholds."""

    def __init__(self, config: str, trial: Trial, directory: str, arguments: argparse.Namespace):
        """Raises the errors of a `Run`."""
        place = os.path.join(directory, os.path.splitext(config)[0].strip("./").replace("/", "_"))
        super().__init__(config, [f"Logs.metrics_interval_s={arguments.metrics_interval}"], trial, place)
        self.name = f"{config} {trial.name}"
        settings = {name: value for name, value in trial.settings.items() if name != "Experiment.seed"}
        self.group = (config, *(f"{name} = {value}" for name, value in settings.items()))
        self._thresholds = arguments.thresholds
        self._seconds = 60 * arguments.minutes
        self._curve = os.path.join(arguments.output, f"{os.path.basename(place)}_{trial.name}.csv")
        self._metric = "eval/episode_return" if self.experiment.actors.num_eval_envs else "episode_return"

    def _is_over(self) -> bool:
        rows = self.rows()
        spent = rows[-1]["seconds"] if rows else 0.0
        return spent >= self._seconds or first(rows, self._metric, self._thresholds[-1]) is not None

    def train(self, stopped: Callable[[], bool]) -> None:
        """Trains until the run is over; does nothing if it is."""
        if not self._is_over():
            super().train(self._watch(stopped))

    def _watch(self, stopped: Callable[[], bool]) -> Callable[[], bool]:
        """A function to poll: whether to end the run. It reads the metrics when their file has changed."""
        path = os.path.join(self.logdir, metrics.FILE)
        deadline = time.monotonic() + self._seconds + _LATE_SECONDS
        size, over = -1, False

        def ends() -> bool:
            nonlocal size, over
            now = os.path.getsize(path) if os.path.exists(path) else 0
            if now != size:
                size, over = now, self._is_over()
            return over or stopped() or time.monotonic() > deadline

        return ends

    def _start(self) -> dict[str, Any]:
        return {**super()._start(), "env_steps": _env_steps(self.experiment)}

    def row(self) -> dict[str, Any]:
        """Seed, frames, minutes, returns, when each threshold was reached, the starts, and why it failed if it did."""
        rows, failure = self.rows(), self.failure()
        if rows:
            os.makedirs(os.path.dirname(self._curve), exist_ok=True)
            write_table(rows, self._curve)
        returns = [row[self._metric] for row in rows if self._metric in row]
        if not failure and not self._is_over() and not self.is_finished():
            failure = f"stopped {_LATE_SECONDS / 60:.0f} minutes after its budget, most of which it did not train"
        return {
            "seed": self.experiment.seed,
            "metric": self._metric,
            "frames": rows[-1]["env_frames"] if rows else 0,
            "minutes": rows[-1]["seconds"] / 60 if rows else 0.0,
            "last_return": returns[-1] if returns else None,
            "best_return": max(returns, default=None),
            "reached": [first(rows, self._metric, threshold) for threshold in self._thresholds],
            "starts": self.starts(),
            **({"failure": failure} if failure else {}),
        }


def first(rows: Sequence[Mapping[str, float]], metric: str, threshold: float) -> dict[str, float] | None:
    """`frames` and `minutes` of the first row of metrics with so high a mean return; None if there is none.

    A mean of training episodes counts from the hundredth episode on.
    """
    for row in rows:
        is_full = metric != "episode_return" or row["episodes"] >= metrics.RECENT_EPISODES
        if is_full and row.get(metric, -math.inf) >= threshold:
            return {"frames": row["env_frames"], "minutes": row["seconds"] / 60}
    return None


def _env_steps(experiment: Experiment) -> float:
    """Agent steps per second of the experiment's environments alone."""
    actors = experiment.actors
    groups = [actors.envs_per_group] * (actors.num_actors * actors.groups_per_actor)
    return statistics.median(env_rates(experiment.env, groups, _ENV_SECONDS, repeats=3))


def _line(name: str, row: Mapping[str, Any]) -> str:
    if "failure" in row:
        return f"{name} failed: {row['failure']}"
    best = "none" if row["best_return"] is None else f"{row['best_return']:.2f}"
    return f"{name}: {row['frames']:,} frames in {row['minutes']:.1f} minutes, best return {best}"


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
    """Number of seeds that have reached a threshold, and `median` and `worst` of their frames and minutes.

    Args:
      reached: a `first` for each seed.

    Returns:
      `reached`, and for `frames` and `minutes` the median and the worst, None where they are infinite.
    """
    result: dict[str, Any] = {"reached": sum(each is not None for each in reached)}
    for unit in ("frames", "minutes"):
        values = [math.inf if each is None else each[unit] for each in reached]
        found = {"median": statistics.median(values), "worst": max(values)}
        result[unit] = {name: value if math.isfinite(value) else None for name, value in found.items()}
    return result


def table(result: dict[str, Any]) -> str:
    """Medians and worst seeds of each experiment by threshold; below, the seeds that failed."""
    rows: list[list[str]] = []
    failures = []
    for experiment in result["experiments"]:
        runs = experiment["runs"]
        for each in experiment["thresholds"]:
            cells = [
                f"{each['threshold']:g}",
                f"{each['reached']} of {len(runs)}",
                *(_cell(each["frames"][which], 1e6) for which in ("median", "worst")),
                *(_cell(each["minutes"][which], 1.0) for which in ("median", "worst")),
                median(experiment["env_steps"]),
            ]
            rows.append([experiment["config"], *cells])
            rows += [[f"  {setting}", *[""] * len(cells)] for setting in experiment["settings"]]
        failures += [
            f"{experiment['config']}, seed {run['seed']}: {run['failure']}" for run in runs if "failure" in run
        ]
    heads = ["experiment", "return", "seeds", "M frames\nmedian", "worst", "minutes\nmedian", "worst", "env\nsteps/s"]
    return "\n".join([columns(heads, rows), *failures])


def _cell(value: float | None, unit: float) -> str:
    return "-" if value is None else number(value / unit)
