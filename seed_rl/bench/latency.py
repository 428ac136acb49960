"""How long an actor waits for its actions, by load, through the real server."""

from __future__ import annotations

import argparse
from typing import Any

from seed_rl import experiment as experiments
from seed_rl.bench import host, pacing
from seed_rl.bench.traffic import Pace
from seed_rl.bench.trial import Load, Recorded, Trial, recorded, trial
from seed_rl.experiment import Experiment

SUMMARY = "time from observations to actions, percentiles by load, with the real act step and with none"

_CALIBRATIONS = 3
_RECORDED_STEPS = 200

NOTE = (
    "A latency lasts from when observations were due (at the end of the environments' drawn step time) until\n"
    "their actions were decoded, in the client's process, encoding included. So what the generator delays is\n"
    "counted, never hidden; 'late' is the p99 of it. A group that waits sends nothing else, as real environments\n"
    "do; 'clocked' is the p99 with what a sender on a clock would have sent meanwhile. At 100 % every stream\n"
    "sends as soon as it is answered."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Of `measure`."""
    parser.add_argument("--gin_file", action="append", help="experiment; by default atari/vtrace_pong")
    parser.add_argument("--gin_param", action="append", default=[], help="gin binding")
    parser.add_argument("--models", default="null,act", help="null: no network; act: the real act step")
    parser.add_argument("--streams", type=int, default=64, help="groups of environments")
    parser.add_argument("--group_size", type=int, default=4, help="environments of each")
    parser.add_argument("--max_batch_size", type=int, default=64, help="environments per act step at the most")
    parser.add_argument("--loads", default="10,25,50,75,90,100", help="percent of the rate at saturation")
    parser.add_argument("--jitter", type=float, default=0.3, help="step times vary by this share in both directions")
    parser.add_argument("--seconds", type=float, default=5.0, help="per load")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--generators", type=int, default=1, help="processes that make the load")


def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    """Percentiles by load of each model.

    Raises:
      ChildFailed: the learner or the generator failed.
      ConfigError: the experiment can't be run.
      ValueError: an argument that can't be.
    """
    models = arguments.models.split(",")
    unknown = set(models) - {host.NULL, host.ACT}
    if unknown:
        raise ValueError(f"--models takes null and act, got {', '.join(sorted(unknown))}")
    loads = [float(load) / 100 for load in arguments.loads.split(",")]
    if not all(0 < load <= 1 for load in loads):
        raise ValueError(f"--loads takes percentages above 0 and up to 100, got {arguments.loads}")
    seconds, repeats = arguments.seconds, arguments.repeats
    if getattr(arguments, "quick", False):
        loads, seconds, repeats = [loads[0], loads[-1]], min(seconds, 0.5), 1
    experiment = experiments.load(arguments.gin_file or ["atari/vtrace_pong"], arguments.gin_param)
    load = Load(arguments.streams, arguments.group_size, arguments.generators, encode_each=True)
    with recorded(experiment, max(16, load.group_size), _RECORDED_STEPS) as steps:
        measured = {
            model: _measure_model(experiment, model, arguments, load, steps, loads, seconds, repeats)
            for model in models
        }
    return {"streams": load.streams, "group_size": load.group_size, "models": measured, "note": NOTE}


def _measure_model(
    experiment: Experiment,
    model: str,
    arguments: argparse.Namespace,
    load: Load,
    steps: Recorded,
    loads: list[float],
    seconds: float,
    repeats: int,
) -> dict[str, Any]:
    with trial(experiment, model, arguments.max_batch_size, load, steps) as running:
        saturated, _, _ = running.run(Pace(0.0, 0.0, seconds), settle=min(2.0, seconds))
        saturation = saturated.observations_per_second
        rows = []
        for share in loads:
            if share < 1:
                pace = _calibrated(running, load, share * saturation, arguments.jitter, seconds)
            else:
                pace = Pace(0.0, 0.0, seconds)
            measured = [_row(running, load, pace) for _ in range(repeats)]
            rows.append({"load": share, "offered": share * saturation, **pacing.median_of(measured)})
    return {"saturation": saturation, "loads": rows}


def _calibrated(running: Trial, load: Load, rate: float, jitter: float, seconds: float) -> Pace:
    """The pace at which the streams send at a rate: a stream's step time and latency together make its cycle."""
    latency = 0.0
    for _ in range(_CALIBRATIONS):
        step = pacing.step_for_rate(load.streams, load.group_size, rate, latency)
        seen, _, _ = running.run(Pace(step, jitter, min(1.0, seconds)), settle=min(2 * step, 1.0))
        latency = (latency + float(seen.latencies.mean())) / 2 if latency else float(seen.latencies.mean())
    return Pace(pacing.step_for_rate(load.streams, load.group_size, rate, latency), jitter, seconds)


def _row(running: Trial, load: Load, pace: Pace) -> dict[str, Any]:
    seen, used, _ = running.run(pace, settle=0.2)
    cycle = pace.step_seconds + float(seen.latencies.mean())
    return {
        "achieved": seen.observations_per_second,
        "step_ms": 1000 * pace.step_seconds,
        **pacing.percentiles(seen.latencies),
        "clocked_p99": pacing.percentiles(pacing.as_if_clocked(seen.latencies, cycle))["p99"],
        "late_p99": pacing.percentiles(seen.lags)["p99"],
        "unanswered": seen.unanswered,
        "batch": used.observations / used.batches,
        "act_ms": used.act_ms,
        "generator_cpu": seen.cpu_share,
    }


def table(result: dict[str, Any]) -> str:
    """For people."""
    lines = []
    for model, measured in result["models"].items():
        lines.append(
            f"{model} model, {result['streams']} streams of {result['group_size']} environments; at saturation "
            f"{measured['saturation']:,.0f} observations/s"
        )
        lines.append(f"{'load':>6}{'offered/s':>11}{'achieved/s':>11}{'batch':>7}" + _heading() + "  ms")
        for row in measured["loads"]:
            numbers = [row[name] for name in (*pacing.PERCENTILES, "clocked_p99", "late_p99")]
            lines.append(
                f"{row['load']:6.0%}{row['offered']:11,.0f}{row['achieved']:11,.0f}{row['batch']:7.1f}"
                + "".join(f"{number:9.2f}" for number in numbers)
            )
        lines.append("")
    return "\n".join([*lines, result["note"]])


def _heading() -> str:
    return "".join(f"{name:>9}" for name in (*pacing.PERCENTILES, "clocked", "late"))
