"""The rate of a whole run, compared with the ceiling set by its components on the same cores.

Each component is measured alone on the whole machine, in agent steps per second: the environments (a thread per group),
the act step, and the update with all its passes. If they share the same cores, the run can't exceed the ceiling
1 / (1/env + 1/act + 1/train); with an accelerator it can, because learner and environments compute in parallel. The run
is a `seed_rl train`, measured for some seconds after it has settled.

Because machines drift within minutes, the components are measured before and after each run, and their means give its
ceiling.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from typing import Any

from benchmarks import BenchmarkError, flags
from benchmarks.env import env_rates
from benchmarks.experiments import PRESETS, Recipe
from benchmarks.parts import LearnerPart
from benchmarks.report import columns, median
from benchmarks.timing import milliseconds, ratio, spread
from seed_rl.experiment import Experiment
from seed_rl.reporting import metrics
from seed_rl.system.children import how_it_ended

COMPONENTS = ("env", "act", "train")

QUICK = {
    "presets": "catch",
    "settle": 0.5,
    "run_seconds": 1.0,
    "metrics_interval": 0.2,
    "seconds": 0.3,
    "repeats": 1,
}

_START_SECONDS = 180.0
_STOP_SECONDS = 60


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of this benchmark."""
    parser.add_argument("--presets", type=flags.some_of(PRESETS), default="vtrace", help=", ".join(PRESETS))
    parser.add_argument("--gin_file", help="gin file of an experiment to measure instead of the presets")
    parser.add_argument("--gin_param", action="append", default=[], help="gin binding for all experiments")
    parser.add_argument("--settle", type=flags.seconds, default=10.0, help="seconds of training before the measurement")
    parser.add_argument("--run_seconds", type=flags.seconds, default=10.0, help="seconds of each run to measure")
    parser.add_argument(
        "--metrics_interval", type=flags.seconds, default=2.0, help="interval of the run's metrics, seconds"
    )
    parser.add_argument(
        "--seconds", type=flags.seconds, default=4.0, help="seconds per component, before and after a run"
    )
    parser.add_argument("--repeats", type=flags.count, default=3, help="number of runs; the table shows the median")


def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    """Measure rates and efficiency of each preset, or of the experiment in a gin file."""
    recipes = {name: PRESETS[name] for name in arguments.presets}
    if arguments.gin_file:
        recipes = {arguments.gin_file: Recipe(arguments.gin_file)}
    more = tuple(arguments.gin_param)
    return {
        "runs": [
            _experiment(name, Recipe(gin_file, (*bindings, *more)), arguments)
            for name, (gin_file, bindings) in recipes.items()
        ]
    }


def _experiment(name: str, recipe: Recipe, arguments: argparse.Namespace) -> dict[str, Any]:
    """Measure all rates in agent steps per second trained on; evaluation environments reduce those of env and act."""
    experiment = recipe.load()
    components = _Components(experiment, arguments.seconds)
    before, around, whole = components.rates(), [], []
    for _ in range(arguments.repeats):
        whole.append(run_rate(recipe, arguments))
        after = components.rates()
        around.append({part: statistics.mean([before[part], after[part]]) for part in COMPONENTS})
        before = after
    return {
        "name": name,
        "train_arguments": recipe.flags(),
        "experiment": experiment.to_json(),
        **shares(around, whole),
        "frames": spread([experiment.env.action_repeat * value for value in whole]),
    }


def shares(components: Sequence[dict[str, float]], whole: Sequence[float]) -> dict[str, Any]:
    """Compute spreads of the components' rates, `end_to_end`, `ceiling` and `efficiency`, the share of the ceiling.

    Args:
      components: rates before and after each run, by name.
      whole: rate of each run.
    """
    ceilings = [1 / sum(1 / rates[part] for part in COMPONENTS) for rates in components]
    return {
        **{part: spread([rates[part] for rates in components]) for part in COMPONENTS},
        "end_to_end": spread(whole),
        "ceiling": spread(ceilings),
        "efficiency": ratio(whole, ceilings),
    }


class _Components:
    """The components of an experiment, compiled once for repeated measurements."""

    def __init__(self, experiment: Experiment, seconds: float):
        self._experiment = experiment
        self._seconds = seconds
        self._learner = LearnerPart(experiment)
        self._act, self._train = self._learner.step_by_step()

    def rates(self) -> dict[str, float]:
        actors = self._experiment.actors
        groups = [actors.envs_per_group] * (actors.num_actors * actors.groups_per_actor)
        learned_from = actors.num_training_envs / actors.num_envs
        env = statistics.median(env_rates(self._experiment.env, groups, self._seconds, repeats=3))
        times = milliseconds({"act": self._act, "train": self._train}, self._seconds, repeats=3)
        act, train = (1e3 / statistics.median(times[name]) for name in ("act", "train"))
        return {
            "env": learned_from * env,
            "act": act * self._learner.steps_per_act,
            "train": train * self._learner.steps_per_update,
        }


def run_rate(recipe: Recipe, arguments: argparse.Namespace) -> float:
    """Measure the agent steps per second of a `seed_rl train` over `run_seconds` after it has settled.

    Raises:
      BenchmarkError: the run ended, or did not settle in time.
    """
    limit = _START_SECONDS + arguments.settle + arguments.run_seconds
    with tempfile.TemporaryDirectory(prefix="seed_rl-") as logdir:
        printed = os.path.join(logdir, "output")
        train = [sys.executable, "-m", "seed_rl", "train", f"--logdir={logdir}", "--total_frames=1000000000000"]
        train += [f"--gin_param=Logs.metrics_interval_s={arguments.metrics_interval}", *recipe.flags()]
        with open(printed, "wb") as output:
            # `timeout` ends the run even if this process is killed.
            command = ["timeout", f"--kill-after={_STOP_SECONDS}", f"{limit + _STOP_SECONDS}", *train]
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
        try:
            deadline = time.monotonic() + limit
            while time.monotonic() < deadline:
                if process.poll() is not None:
                    raise BenchmarkError(f"seed_rl train failed: {how_it_ended(process.returncode, printed)}")
                rows = settled(_rows(logdir), arguments.settle)
                if rows and duration(rows) >= arguments.run_seconds:
                    return (rows[-1]["agent_steps"] - rows[0]["agent_steps"]) / duration(rows)
                time.sleep(0.1)
        finally:
            process.terminate()
            process.wait()
    raise BenchmarkError(f"seed_rl train didn't settle within {limit:.0f} s")


def _rows(logdir: str) -> list[dict[str, float]]:
    return metrics.read(logdir) if os.path.exists(os.path.join(logdir, metrics.FILE)) else []


def settled(rows: Sequence[dict[str, float]], settle: float) -> list[dict[str, float]]:
    """Return the rows of metrics later than `settle` seconds after the first update, when the replay is filled."""
    training = [row for row in rows if row["learner_updates"] > 0]
    return [row for row in training if row["seconds"] > training[0]["seconds"] + settle]


def duration(rows: Sequence[dict[str, float]]) -> float:
    """Return the seconds from the first to the last row."""
    return rows[-1]["seconds"] - rows[0]["seconds"]


def table(result: dict[str, Any]) -> str:
    """Format rates, ceiling and efficiency by experiment."""
    rows = [
        [
            run["name"],
            *(median(run[name]) for name in (*COMPONENTS, "ceiling", "end_to_end", "frames")),
            f"{run['efficiency']['median']:.2f}",
            " ".join(f"{value:.2f}" for value in run["efficiency"]["repeats"]),
        ]
        for run in result["runs"]
    ]
    heads = ["agent steps/s", *COMPONENTS, "ceiling", "end to\nend", "frames/s", "share of\nceiling", "in each run"]
    return columns(heads, rows)
