"""A policy server beside the learner whose service it is: rates and latencies by number of clients.

Each client has its own connection and sends the observations of one environment as soon as it has its action. The
learner acts for actors that do the same, and its unrolls are discarded. The two take turns, with a process of clients
each, of which the other one stands still. Clients and server share the cores.
"""

import argparse
import dataclasses
import os
import tempfile
from typing import Any

from benchmarks import flags, streams
from benchmarks.experiments import Recipe
from benchmarks.parts import Consumer, LearnerPart
from benchmarks.report import columns, median
from benchmarks.timing import ratio, spreads
from seed_rl.experiment import Actors, Experiment, config_files
from seed_rl.extras.serving.policy_server import PolicyServer
from seed_rl.weights import checkpoints

PERCENTILES = {"p50": 50.0, "p99": 99.0}

QUICK = {"gin_file": "catch/vtrace", "clients": "2", "seconds": 0.4, "repeats": 1}

_SETTLE_SECONDS = 0.3


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of this benchmark."""
    parser.add_argument("--gin_file", default="atari/vtrace_fast", help="gin file of the experiment")
    parser.add_argument("--gin_param", action="append", default=[], help="gin binding for the experiment")
    parser.add_argument("--clients", type=flags.counts, default="1,8,64", help="numbers of clients")
    flags.add_timing(parser, 10.0)


def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    """Measure learner and policy server in turns, for each number of clients."""
    experiment = Recipe(arguments.gin_file, tuple(arguments.gin_param)).load()
    return {"rows": [_row(experiment, clients, arguments) for clients in arguments.clients]}


def _row(experiment: Experiment, clients: int, arguments: argparse.Namespace) -> dict[str, Any]:
    sized = dataclasses.replace(experiment, actors=Actors(clients, 1, 1, num_eval_envs=0))
    load = streams.Load(sized.env_spec(), clients, 1, 1)
    learner = LearnerPart(sized)
    with tempfile.TemporaryDirectory(prefix="seed_rl-") as logdir, Consumer(learner.discard) as consumer:
        _save(sized, logdir)
        server = PolicyServer(logdir, None)
        server.acting.act_step.warm_up()
        windows = streams.measure(
            [learner.service, server.service],
            load,
            settle=_SETTLE_SECONDS,
            seconds=arguments.seconds,
            repeats=arguments.repeats,
            failure=lambda: consumer.failure,
        )
    values = [[_values(window) for window in each] for each in windows]
    rates = [[turn["steps"] for turn in each] for each in reversed(values)]
    spread = {name: spreads(each) for name, each in zip(("learner", "server"), values, strict=True)}
    return {"clients": clients, **spread, "share": ratio(*rates)}


def _save(experiment: Experiment, logdir: str) -> None:
    """Write the log directory of a run with the initial weights."""
    config_files.save_config(experiment, logdir)
    weights = checkpoints.name_variables("agent", experiment.build_agent().variables)
    arrays = {name: variable.numpy() for name, variable in weights.items()}
    os.makedirs(f"{logdir}/checkpoints")
    checkpoints.save(f"{logdir}/checkpoints", 0, arrays, {"counters": {"env_frames": 0}}, keep=1)


def _values(window: streams.Window) -> dict[str, float]:
    return {
        "steps": window.observations / window.seconds,
        **window.milliseconds(PERCENTILES),
        "batch": window.observations / window.batches,
    }


def table(result: dict[str, Any]) -> str:
    """Format rates and latencies by number of clients."""
    heads = ["clients", "served by", "steps/s", *(f"{name}\nms" for name in PERCENTILES), "batch", "share"]
    rows = [
        [
            f"{row['clients']:,}",
            name,
            *(median(row[name][value]) for value in ("steps", *PERCENTILES, "batch")),
            f"{row['share']['median']:.2f}" if name == "server" else "",
        ]
        for row in result["rows"]
        for name in ("learner", "server")
    ]
    return columns(heads, rows)
