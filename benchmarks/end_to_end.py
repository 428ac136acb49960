"""The whole product, and its share of the ceiling that its parts allow on the same cores.

The parts are measured each alone with the whole machine, in agent steps per second: the environments (a thread per
group), the act step, the update. If they take turns on the same cores, the whole can't be faster than the ceiling
1 / (1/env + 1/act + 1/train); with an accelerator it can, as the learner then computes beside the environments. The
whole is a run of `seed_rl train`, over some seconds after it has settled.

Machines drift within minutes: the parts are measured before and after each run, and the mean of both makes its ceiling.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks import flags
from benchmarks.components import LearnerParts
from benchmarks.env import env_rate
from benchmarks.product import product
from benchmarks.text import columns, number
from benchmarks.timing import rate, ratio, spread
from seed_rl import config_files
from seed_rl.experiment import Experiment

PARTS = ("env", "act", "train")


def _preset(gin_file: str, bindings: Mapping[str, object]) -> list[str]:
    return [f"--gin_file={gin_file}", *(f"--gin_param={name} = {value!r}" for name, value in bindings.items())]


_PONG = {"Experiment.batch_size": 32, "Actors.groups_per_actor": 4, "VTrace.dtype": "float32"}
_LSTM = {**_PONG, "VTrace.lstm_units": 256, "VTrace.previous_step_inputs": True}
_DEEP = {**_LSTM, "VTrace.torso": "deep"}
_R2D2 = {
    "Actors.groups_per_actor": 4,
    "R2D2.unroll_length": 40,
    "R2D2.burn_in": 20,
    "R2D2.lstm_units": 512,
    "R2D2.head_hidden": 512,
    "Replay.capacity": 4000,  # two of them have to fit: the run's, and that of the parts
    "Replay.min_size": 500,
}
_BFLOAT16 = {"VTrace.dtype": "mixed_bfloat16"}
PRESETS = {
    "vtrace": _preset("atari/vtrace_pong", _PONG),
    "vtrace_lstm": _preset("atari/vtrace_pong", _LSTM),
    "vtrace_lstm_bf16": _preset("atari/vtrace_pong", {**_LSTM, **_BFLOAT16}),
    "vtrace_deep": _preset("atari/vtrace_pong", _DEEP),
    "vtrace_deep_bf16": _preset("atari/vtrace_pong", {**_DEEP, **_BFLOAT16}),
    "r2d2": _preset("atari/r2d2_pong", _R2D2),
}
"""Arguments of `seed_rl train`: Pong with the agent, network and dtype of the name, and with the updates and numbers of
environments that two cores are used best with."""

QUICK = {
    "gin_file": ["catch/vtrace"],
    "settle": 0.5,
    "run_seconds": 1.0,
    "seconds": 0.3,
    "repeats": 1,
    "metrics_interval": 0.2,
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Its flags."""
    parser.add_argument("--presets", type=flags.some_of(PRESETS), default="vtrace", help=", ".join(PRESETS))
    parser.add_argument("--gin_file", action=flags.Append, help="another experiment, in place of the presets")
    parser.add_argument("--gin_param", action=flags.Append, default=[], help="a gin binding for all experiments")
    parser.add_argument("--settle", type=flags.positive, default=10.0, help="seconds of learning before the run counts")
    parser.add_argument("--run_seconds", type=flags.positive, default=10.0, help="that count of each run")
    parser.add_argument("--metrics_interval", type=flags.positive, default=2.0, help="seconds, of the run's metrics")
    parser.add_argument("--seconds", type=flags.positive, default=4.0, help="for each part, each time")
    parser.add_argument("--repeats", type=flags.count, default=3, help="runs; the median counts")


def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    """Rates and efficiency of each preset or of the experiment given by gin files."""
    chosen = {name: PRESETS[name] for name in arguments.presets}
    if arguments.gin_file:
        chosen = {arguments.gin_file[-1]: [f"--gin_file={name}" for name in arguments.gin_file]}
    bindings = [f"--gin_param={binding}" for binding in arguments.gin_param]
    return {"runs": [measure_experiment(name, [*given, *bindings], arguments) for name, given in chosen.items()]}


def measure_experiment(name: str, train_arguments: list[str], arguments: argparse.Namespace) -> dict[str, Any]:
    """All rates in agent steps per second, the ceiling, and the share of it that is reached.

    Steps that are learned from count: evaluation environments take their share of `env` and `act`.

    Args:
      name: of the result.
      train_arguments: `--gin_file=` and `--gin_param=` of `seed_rl train`.
      arguments: see `add_arguments`.
    """
    experiment = load(train_arguments)
    parts = Parts(experiment, arguments.seconds)
    before = parts.rates()
    mean_rates: dict[str, list[float]] = {part: [] for part in PARTS}
    whole = []
    for _ in range(arguments.repeats):
        whole.append(end_to_end_rate(train_arguments, arguments))
        after = parts.rates()
        for part in PARTS:
            mean_rates[part].append(statistics.mean([before[part], after[part]]))
        before = after
    ceilings = [1 / sum(1 / value for value in values) for values in zip(*mean_rates.values(), strict=True)]
    repeat = experiment.env.action_repeat
    return {
        "name": name,
        "train_arguments": train_arguments,
        "experiment": experiment.to_json(),
        **{part: spread(values) for part, values in mean_rates.items()},
        "end_to_end": spread(whole),
        "frames": spread([repeat * value for value in whole]),
        "ceiling": spread(ceilings),
        "efficiency": ratio(whole, ceilings),
    }


def load(train_arguments: list[str]) -> Experiment:
    """The experiment that `seed_rl train` would run with these `--gin_file=` and `--gin_param=`."""
    values: dict[str, list[str]] = {"--gin_file": [], "--gin_param": []}
    for argument in train_arguments:
        flag, _, value = argument.partition("=")
        values[flag].append(value)
    return config_files.load(values["--gin_file"], values["--gin_param"])


class Parts:
    """The parts of an experiment, ready to be measured again and again."""

    def __init__(self, experiment: Experiment, seconds: float):
        self._experiment = experiment
        self._seconds = seconds
        self._learner = LearnerParts(experiment)

    def rates(self) -> dict[str, float]:
        """Agent steps per second of each part."""
        actors = self._experiment.actors
        groups = [actors.envs_per_group] * (actors.num_actors * actors.groups_per_actor)
        learned_from = actors.num_training_envs / actors.num_envs
        return {
            "env": learned_from * env_rate(self._experiment.env, groups, self._seconds),
            "act": rate(self._learner.act, self._seconds),
            "train": rate(self._learner.train, self._seconds),
        }


def end_to_end_rate(train_arguments: list[str], arguments: argparse.Namespace) -> float:
    """Agent steps per second of `seed_rl train`, over `run_seconds` after it has settled.

    Raises:
      ChildFailed: the run ends or brings no measurements.
    """
    settle, seconds = arguments.settle, arguments.run_seconds
    with product("train", train_arguments, arguments.metrics_interval) as run:
        state = run.wait_until(
            lambda rows: duration(settled(rows, settle)) >= seconds, 120 + settle + seconds, "measurements"
        )
    rows = settled(state.rows, settle)
    return (rows[-1]["agent_steps"] - rows[0]["agent_steps"]) / duration(rows)


def settled(rows: Sequence[dict[str, float]], settle: float) -> list[dict[str, float]]:
    """The rows of metrics from `settle` seconds after the first with an update on: a replay is filled before."""
    training = [row for row in rows if row["learner_updates"] > 0]
    return [row for row in training if row["seconds"] > training[0]["seconds"] + settle]


def duration(rows: Sequence[dict[str, float]]) -> float:
    """Seconds from the first to the last of some rows of metrics, 0 without any."""
    return rows[-1]["seconds"] - rows[0]["seconds"] if rows else 0.0


def table(result: dict[str, Any]) -> str:
    """For people."""
    rows = [
        [
            run["name"],
            *(number(run[rates]["median"]) for rates in (*PARTS, "ceiling", "end_to_end", "frames")),
            f"{run['efficiency']['median']:.2f}",
            " ".join(f"{value:.2f}" for value in run["efficiency"]["repeats"]),
        ]
        for run in result["runs"]
    ]
    heads = ["agent steps/s", *PARTS, "ceiling", "end to\nend", "frames/s", "share of\nceiling", "in each run"]
    return columns(heads, rows)
