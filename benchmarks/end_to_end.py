"""The rate of a whole run, compared with the ceiling set by its components on the same cores.

Each component is measured alone on the whole machine, in agent steps per second: the environments (a thread per group),
the act step, and the update with all its passes. If they share the same cores, the run can't exceed the ceiling
1 / (1/env + 1/act + 1/train); with an accelerator it can, because learner and environments compute in parallel. The run
is a `seed_rl train`, measured for some seconds after it has settled. The limit is the ceiling that remains if act step
and update are nothing but the network that they train.

Because machines drift within minutes, the components are measured before and after each run, and their means give its
ceiling.
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Sequence
from typing import Any

from benchmarks import BenchmarkError, flags
from benchmarks.env import rate_of
from benchmarks.experiments import PRESETS, Recipe
from benchmarks.parts import LearnerPart, milliseconds
from benchmarks.report import median, ratio, spread
from seed_rl.extras.studies.runs import Run, Trial
from seed_rl.reporting.text import columns

COMPONENTS = ("env", "act", "train")
NETWORKS = ("env", "act_network", "train_network")

QUICK = {"presets": "catch", "settle": 0.5, "run_seconds": 1.0, "metrics_interval": 0.2, "seconds": 0.3, "repeats": 1}

_START_SECONDS = 180.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--presets", type=flags.some_of(PRESETS), default="vtrace", help=", ".join(PRESETS))
    parser.add_argument(
        "--gin_file", action="append", default=[], help="gin file of an experiment to measure instead of the presets"
    )
    parser.add_argument("--gin_param", action="append", default=[], help="gin binding for all experiments")
    parser.add_argument("--settle", type=flags.seconds, default=10.0, help="seconds of training before the measurement")
    parser.add_argument("--run_seconds", type=flags.seconds, default=10.0, help="seconds of each run to measure")
    parser.add_argument("--metrics_interval", type=flags.seconds, default=2.0, help="seconds between rows of metrics")
    flags.add_timing(parser, 4.0)


def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    """Measure rates and efficiency of each preset, or of the experiment in a gin file."""
    recipes = {name: Recipe(name) for name in arguments.gin_file} or {name: PRESETS[name] for name in arguments.presets}
    more = tuple(arguments.gin_param)
    wanted = {name: Recipe(gin_file, (*bindings, *more)) for name, (gin_file, bindings) in recipes.items()}
    return {"runs": [_experiment(name, recipe, arguments) for name, recipe in wanted.items()]}


def _experiment(name: str, recipe: Recipe, arguments: argparse.Namespace) -> dict[str, Any]:
    """Measure all rates in agent steps per second trained on; evaluation environments reduce those of env and act."""
    experiment = recipe.load()
    learner = LearnerPart(experiment)
    steps = {"act": learner.steps_per_act, "train": learner.steps_per_update}
    steps |= {f"{name}_network": count for name, count in steps.items()}
    works = dict(zip(steps, (*learner.step_by_step(), *learner.networks_alone()), strict=True))

    def rates() -> dict[str, float]:
        actors = experiment.actors
        env = rate_of(experiment, arguments.seconds)
        times = milliseconds(works, arguments.seconds, repeats=3)
        parts = {name: 1e3 / statistics.median(each) * steps[name] for name, each in times.items()}
        return {"env": env * actors.num_training_envs / actors.num_envs, **parts}

    before, around, whole = rates(), [], []
    for _ in range(arguments.repeats):
        whole.append(run_rate(recipe, arguments))
        after = rates()
        around.append({part: statistics.mean([before[part], after[part]]) for part in after})
        before = after
    return {
        "name": name,
        "train_arguments": recipe.flags(),
        "experiment": experiment.to_json(),
        **shares(around, whole),
        "frames": spread([experiment.env.action_repeat * value for value in whole]),
    }


def shares(components: Sequence[dict[str, float]], whole: Sequence[float]) -> dict[str, Any]:
    """Compute the spread of each part, `end_to_end`, `ceiling`, `limit` and `efficiency`, the share of the ceiling."""
    ceilings = [1 / sum(1 / rates[part] for part in COMPONENTS) for rates in components]
    limits = [1 / sum(1 / rates[part] for part in NETWORKS) for rates in components]
    return {
        **{part: spread([rates[part] for rates in components]) for part in components[0]},
        "limit": spread(limits),
        "end_to_end": spread(whole),
        "ceiling": spread(ceilings),
        "efficiency": ratio(whole, ceilings),
    }


class _Measured(Run):
    """A run that ends once it has been measured."""

    def __init__(self, directory: str, recipe: Recipe, arguments: argparse.Namespace):
        interval = f"--gin_param=Logs.metrics_interval_s={arguments.metrics_interval}"
        super().__init__(Trial("run", {}), ["--total_frames=1000000000000", interval, *recipe.flags()], directory)
        self._settle, self._seconds = arguments.settle, arguments.run_seconds

    def is_over(self) -> bool:
        return self.rate() is not None

    def rate(self) -> float | None:
        """Return agent steps per second, from the settled rows up to the first that is late enough."""
        rows = settled(self.rows(), self._settle)
        for row in rows:
            if (seconds := row["seconds"] - rows[0]["seconds"]) >= self._seconds:
                return (row["agent_steps"] - rows[0]["agent_steps"]) / seconds
        return None


def run_rate(recipe: Recipe, arguments: argparse.Namespace) -> float:
    """Measure the agent steps per second of a `seed_rl train` over `run_seconds` after it has settled.

    Raises:
      BenchmarkError: the run ended, or did not settle in time.
    """
    limit = _START_SECONDS + arguments.settle + arguments.run_seconds
    deadline = time.monotonic() + limit
    with tempfile.TemporaryDirectory(prefix="seed_rl-") as directory:
        run = _Measured(directory, recipe, arguments)
        run.train(lambda: time.monotonic() > deadline, lambda text: None)
        if (rate := run.rate()) is None:
            raise BenchmarkError(f"seed_rl train failed: {run.failure or f'it did not settle within {limit:.0f} s'}")
        return rate


def settled(rows: Sequence[dict[str, float]], settle: float) -> list[dict[str, float]]:
    """Return the rows of metrics later than `settle` seconds after the first update, when the replay is filled."""
    training = [row for row in rows if row["learner_updates"] > 0]
    return [row for row in training if row["seconds"] > training[0]["seconds"] + settle]


def table(result: dict[str, Any]) -> str:
    measured = {
        "env": "env",
        "act": "act",
        "act_network": "network\nalone",
        "train": "train",
        "train_network": "network\nalone",
        "limit": "limit",
        "ceiling": "ceiling",
        "end_to_end": "end to\nend",
        "frames": "frames/s",
    }
    shown = {name: head for name, head in measured.items() if all(name in run for run in result["runs"])}
    rows = []
    for run in result["runs"]:
        shares_of_runs = " ".join(f"{value:.2f}" for value in run["efficiency"]["repeats"])
        rows.append([run["name"].removeprefix("atari/"), *(median(run[name]) for name in shown), shares_of_runs])
    return columns(["agent steps/s", *shown.values(), "share of the\nceiling"], rows)
