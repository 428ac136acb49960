"""A learner under load: its rate and response latency, by number of actors and environments per actor.

A load generator simulates actors on other machines: each has its own connection and streams, and sends observations one
step time after it received its actions. The learner is real: server, batching, act step and updates. If the offered
rate exceeds the learner's, actors wait for their actions and latencies grow. Generator and
learner share the cores: a generator that uses a whole core is the bottleneck.

`offered` is the rate with zero latency. CPU is in cores, i.e. CPU seconds per second.
"""

import argparse
import dataclasses
from typing import Any

from benchmarks import flags, streams
from benchmarks.experiments import Recipe
from benchmarks.parts import LearnerPart
from benchmarks.report import median, number, spreads
from seed_rl.experiment import Actors, Experiment
from seed_rl.reporting.text import columns

PERCENTILES = {"p50": 50.0, "p90": 90.0, "p99": 99.0}

QUICK = {"gin_file": "catch/vtrace", "actors": "2,4", "group_sizes": "2", "step_ms": 5.0, "seconds": 0.6, "repeats": 1}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--gin_file", default="atari/vtrace_pong", help="gin file of the experiment")
    parser.add_argument("--gin_param", action="append", default=[], help="gin binding for the experiment")
    parser.add_argument("--actors", type=flags.counts, default="16,64,256,1024", help="numbers of actors")
    parser.add_argument("--groups", type=flags.count, default=1, help="streams per actor")
    parser.add_argument("--group_sizes", type=flags.counts, default="1,4", help="environments per stream")
    step_ms = flags.at_least(0.0)
    parser.add_argument("--step_ms", type=step_ms, default=50.0, help="step time of a group; 0: as fast as answered")
    flags.add_timing(parser, 6.0)


def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    experiment = Recipe(arguments.gin_file, tuple(arguments.gin_param)).load()
    rows = [_row(experiment, actors, size, arguments) for size in arguments.group_sizes for actors in arguments.actors]
    return {"step_ms": arguments.step_ms, "rows": rows}


def _row(experiment: Experiment, actors: int, group_size: int, arguments: argparse.Namespace) -> dict[str, Any]:
    inference = experiment.inference
    sized = dataclasses.replace(
        experiment,
        actors=Actors(actors, arguments.groups, group_size, num_eval_envs=0),
        inference=dataclasses.replace(inference, max_batch_size=max(inference.max_batch_size, group_size)),
    )
    step_seconds = arguments.step_ms / 1000
    load = streams.Load(experiment.env_spec(), actors, arguments.groups, group_size, step_seconds)
    settle = step_seconds + arguments.seconds / arguments.repeats
    with LearnerPart(sized) as learner:
        windows = streams.measure(
            learner.service, load, settle, arguments.seconds, arguments.repeats, failure=lambda: learner.failure
        )
    return {
        "actors": actors,
        "streams": load.streams,
        "environments": load.streams * group_size,
        "offered": load.streams * group_size / step_seconds if step_seconds else None,
        **spreads([_values(window) for window in windows]),
    }


def _values(window: streams.Window) -> dict[str, float]:
    return {
        "observations": window.observations / window.seconds,
        **window.milliseconds(PERCENTILES),
        "batch": window.observations / window.batches,
        "server_thread": window.server_thread_cpu / window.seconds,
        "inference_thread": window.inference_thread_cpu / window.seconds,
        "learner": window.server_cpu / window.seconds,
        "generator": window.client_cpu / window.seconds,
    }


def table(result: dict[str, Any]) -> str:
    heads = ["actors", "streams", "envs", "offered\n/s", "answered\n/s", *(f"{name}\nms" for name in PERCENTILES)]
    heads += ["batch", "server\nthread", "infer.\nthread", "learner\ncores", "sender\ncores"]
    rows = [
        [
            *(f"{row[name]:,}" for name in ("actors", "streams", "environments")),
            "-" if row["offered"] is None else number(row["offered"]),
            *(median(row[name]) for name in ("observations", *PERCENTILES, "batch")),
            *(f"{row[name]['median']:.2f}" for name in ("server_thread", "inference_thread", "learner", "generator")),
        ]
        for row in result["rows"]
    ]
    return f"acting and learning, {result['step_ms']:g} ms per step of a group\n{columns(heads, rows)}"
