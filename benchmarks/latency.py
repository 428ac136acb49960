"""How long an actor waits for its actions, by load, through the real server.

Load generators imitate actors on other machines: streams that send recorded steps through gRPC's messages. First all
of them send as soon as they are answered, which is the rate at saturation, load 100 %; then each waits a step time,
drawn for each step, that makes the rate which a load asks for. A group that waits for actions sends nothing else, as
real environments do.

A latency lasts from when observations were due, at the end of the environments' step time, until their actions were
decoded, in the generator's process, encoding included. What the generator delays is so counted, and never hidden:
`late` is the p99 of it. `clocked` is the p99 with what a sender on a clock would have sent while it waited. An
observation without an answer counts with its age. The model "null" answers with zeros, "act" is the experiment's act
step.
"""

from __future__ import annotations

import argparse
from typing import Any

from benchmarks import flags, host, pacing
from benchmarks.text import columns, number
from benchmarks.timing import medians, spreads
from benchmarks.traffic import Pace
from benchmarks.trial import Generators, Recorded, Trial, recorded, trial
from seed_rl import config_files
from seed_rl.experiment import Experiment

_CALIBRATIONS = 3
_RECORDED_STEPS = 200
_MODELS = (host.NULL, host.ACT)

QUICK = {
    "gin_file": ["catch/vtrace"],
    "models": host.NULL,
    "streams": 6,
    "group_size": 2,
    "loads": "10,100",
    "seconds": 0.4,
    "repeats": 1,
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Its flags."""
    flags.add_experiment(parser)
    parser.add_argument("--models", type=flags.some_of(_MODELS), default=",".join(_MODELS), help=" and ".join(_MODELS))
    parser.add_argument("--streams", type=flags.count, default=64, help="groups of environments")
    parser.add_argument("--group_size", type=flags.count, default=4, help="environments of each")
    parser.add_argument("--max_batch_size", type=flags.count, default=64, help="environments per act step at the most")
    parser.add_argument("--loads", type=flags.percentages, default="10,25,50,75,90,100", help="percent of saturation")
    parser.add_argument("--jitter", type=flags.share, default=0.3, help="step times vary by this share, up and down")
    parser.add_argument("--generators", type=flags.count, default=1, help="processes that make the load")
    parser.add_argument("--seconds", type=flags.positive, default=5.0, help="for each measurement")
    parser.add_argument("--repeats", type=flags.count, default=3, help="measurements of each load; the median counts")


def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    """Percentiles by load of each model."""
    experiment = config_files.load(flags.gin_files(arguments), arguments.gin_param)
    load = Generators(arguments.streams, arguments.group_size, arguments.generators, encode_each=True)
    with recorded(experiment, max(16, load.group_size), _RECORDED_STEPS) as steps:
        measured = {model: _measure_model(experiment, model, arguments, load, steps) for model in arguments.models}
    return {"streams": load.streams, "group_size": load.group_size, "models": measured}


def _measure_model(
    experiment: Experiment, model: str, arguments: argparse.Namespace, load: Generators, steps: Recorded
) -> dict[str, Any]:
    seconds = arguments.seconds
    with trial(experiment, model, arguments.max_batch_size, load, steps) as running:
        saturated, _, _ = running.run(Pace(0.0, 0.0, seconds), settle=min(2.0, seconds))
        saturation = saturated.observations_per_second
        rows = []
        for share in (percent / 100 for percent in arguments.loads):
            pace = Pace(0.0, 0.0, seconds)
            if share < 1:
                pace = _calibrated(running, load, share * saturation, arguments.jitter, seconds)
            measured = [_row(running, load, pace) for _ in range(arguments.repeats)]
            rows.append({"load": share, "offered": share * saturation, **spreads(measured)})
    return {"saturation": saturation, "loads": rows}


def _calibrated(running: Trial, load: Generators, rate: float, jitter: float, seconds: float) -> Pace:
    """The pace at which the streams send at a rate: a stream's step time and latency together make its cycle."""
    latency = 0.0
    for _ in range(_CALIBRATIONS):
        step = pacing.step_for_rate(load.streams, load.group_size, rate, latency)
        seen, _, _ = running.run(Pace(step, jitter, min(1.0, seconds)), settle=min(2 * step, 1.0))
        latency = (latency + float(seen.latencies.mean())) / 2 if latency else float(seen.latencies.mean())
    return Pace(pacing.step_for_rate(load.streams, load.group_size, rate, latency), jitter, seconds)


def _row(running: Trial, load: Generators, pace: Pace) -> dict[str, Any]:
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
    shown = ("achieved", "batch", *pacing.PERCENTILES, "clocked_p99", "late_p99")
    percentiles = [f"{name}\nms" for name in pacing.PERCENTILES]
    heads = ["load", "offered/s", "achieved/s", "batch", *percentiles, "clocked\np99 ms", "late\np99 ms"]
    lines = []
    for model, measured in result["models"].items():
        lines.append(
            f"{model} model, {result['streams']} streams of {result['group_size']} environments; at saturation "
            f"{number(measured['saturation'])} observations/s"
        )
        rows = [
            [f"{row['load']:.0%}", number(row["offered"]), *(number(medians(row)[name]) for name in shown)]
            for row in measured["loads"]
        ]
        lines += [columns(heads, rows), ""]
    return "\n".join(lines[:-1])
