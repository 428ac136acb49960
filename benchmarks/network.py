"""Actors and learner with a network between them: the rate by round trip and by groups of environments.

A real `seed_rl learner` and real `seed_rl actor`s on this machine. They speak gRPC over TCP through a proxy that delays
each way by half of the round trip; the steps go over the wire, not through shared memory.

An actor's environments are kept the same in number while the groups change: memory, unrolls and policy lag stay what
they are, and a group more is a setting that costs nothing. Where groups alone are not enough, more environments are
needed: that is the next block of the table.

Actors on machines of their own don't take the learner's cores. So their environments only take the time of Pong, and
no CPU: --step_ms for each environment, one after the other on --cores of each actor. The learner's network is a small
one (unless --gin_file says which), so that the actors are what everything waits for: a learner that is slower hides
delays, and shares would look better. --step_ms=0 plays the experiment's own environments, on the learner's cores.

A share is the rate with a delay over the mean of the rates without it just before and after, in the same run.
Observations are counted as bytes in the proxy. `learner waits` is the share of its time, over all of a run.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from contextlib import ExitStack
from typing import Any

from benchmarks import flags
from benchmarks.failures import BadArguments, MeasurementFailed, last_words
from benchmarks.product import has_settled, product
from benchmarks.slow_network import Line, SlowNetwork
from benchmarks.text import columns, number, sentence
from benchmarks.timing import spread
from seed_rl import config_files
from seed_rl.launch.local_actors import LocalActors
from seed_rl.transport.codec import StepCodec

_START_SECONDS = 300.0
_PACED = "benchmarks.paced"  # gin imports it: once a configuration is there, nothing else may add to what it knows
_SMALL_NETWORK = ("VTrace.torso = 'mlp'", "VTrace.hidden = 32", "VTrace.frame_stack = 1", "VTrace.dtype = 'float32'")
GOOD = 0.9
"""The share of the local rate that a setting is recommended from on."""

QUICK = {
    "gin_file": ["catch/vtrace"],
    "rtt_ms": "20",
    "groups": "2",
    "envs": "8",
    "settle": 0.0,
    "pause": 0.1,
    "seconds": 0.4,
    "repeats": 1,
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Its flags."""
    flags.add_experiment(parser)
    parser.add_argument("--rtt_ms", type=flags.not_negatives, default="1,5,20,50", help="round trips, beside none")
    parser.add_argument("--groups", type=flags.counts, default="1,2,4,8", help="groups of each actor")
    parser.add_argument("--envs", type=flags.counts, default="64,128,256", help="environments of each actor")
    parser.add_argument("--actors", type=flags.count, default=1, help="actor processes")
    parser.add_argument("--step_ms", type=flags.not_negative, default=0.3, help="of an environment; 0: play real ones")
    parser.add_argument("--cores", type=flags.count, default=1, help="of each actor, where its environments are paced")
    parser.add_argument("--mbit", type=flags.not_negative, default=0.0, help="Mbit/s of the network; 0: no limit")
    parser.add_argument("--settle", type=flags.not_negative, default=2.0, help="seconds of the steady state before")
    parser.add_argument("--pause", type=flags.positive, default=0.4, help="seconds after each change of the delay")
    parser.add_argument("--seconds", type=flags.positive, default=2.0, help="for each measurement")
    parser.add_argument("--repeats", type=flags.count, default=3, help="rounds through all delays; the median counts")


def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    """A row for each number of environments and groups."""
    for envs in arguments.envs:
        for groups in arguments.groups:
            if envs % groups:
                raise BadArguments(f"{envs} environments can't be spread evenly over {groups} groups")
    rows = []
    for envs in arguments.envs:
        for groups in arguments.groups:
            row = {"envs": envs, "groups": groups, "group_size": envs // groups}
            try:
                rows.append(row | _shares(arguments, envs, groups))
            except MeasurementFailed as failed:
                rows.append(row | {"failed": str(failed)})
    settings = ("actors", "step_ms", "cores", "mbit", "rtt_ms")
    return {**{name: getattr(arguments, name) for name in settings}, "rows": rows}


def _bindings(arguments: argparse.Namespace, envs: int, groups: int) -> list[str]:
    given = arguments.gin_param if arguments.gin_file else [*_SMALL_NETWORK, *arguments.gin_param]
    paced = ["Experiment.env = @Paced()", f"Paced.step_ms = {arguments.step_ms}", f"Paced.cores = {arguments.cores}"]
    return [
        *given,
        *([f"import {_PACED}", *paced] if arguments.step_ms else []),
        f"Actors.num_actors = {arguments.actors}",
        f"Actors.groups_per_actor = {groups}",
        f"Actors.envs_per_group = {envs // groups}",
        f"Inference.max_batch_size = {max(64, envs // groups)}",
    ]


def _shares(arguments: argparse.Namespace, envs: int, groups: int) -> dict[str, Any]:
    """Rates and shares of one layout: a learner, its actors and the network between them."""
    bindings = _bindings(arguments, envs, groups)
    experiment = config_files.load(flags.gin_files(arguments), bindings)
    bytes_each = StepCodec(experiment.env.spec(), envs // groups).step_bytes / (envs // groups)
    learner_arguments = [f"--gin_file={name}" for name in flags.gin_files(arguments)]
    learner_arguments += [f"--gin_param={binding}" for binding in bindings]
    with ExitStack() as cleanup:
        directory = cleanup.enter_context(tempfile.TemporaryDirectory(prefix="seed_rl-"))
        address = f"unix:{directory}/learner.sock"
        learner = cleanup.enter_context(product("learner", [*learner_arguments, f"--server_address={address}"]))
        network = cleanup.enter_context(SlowNetwork(address))
        actors = LocalActors(
            ["--noshare_memory", f"--import_module={type(experiment.env).__module__}"],
            arguments.actors,
            directory,
            on_failure=lambda: None,
        )
        cleanup.callback(actors.stop)
        actors.start(network.address)

        def ready(rows: list[dict[str, float]]) -> bool:
            if actors.failed is not None:
                raise MeasurementFailed(last_words(str(actors.failed)))
            return has_settled(rows, experiment.actors.num_envs, arguments.settle)

        learner.wait_until(ready, _START_SECONDS, f"the steady state of {experiment.actors.num_envs} environments")
        result = _rounds(network, arguments, bytes_each)
        waiting = [row["time/learner_waiting"] for row in learner.state().rows if row["learner_updates"]]
    return {**result, "learner_waits": sum(waiting) / len(waiting)}


def _rounds(network: SlowNetwork, arguments: argparse.Namespace, bytes_each: float) -> dict[str, Any]:
    """Rates of all delays in turn, with one without a delay before and after each."""
    rates: list[list[float]] = [[] for _ in arguments.rtt_ms]
    shares: list[list[float]] = [[] for _ in arguments.rtt_ms]
    local = [_rate(network, arguments, 0.0, bytes_each)]
    for _ in range(arguments.repeats):
        for index, rtt_ms in enumerate(arguments.rtt_ms):
            rates[index].append(_rate(network, arguments, rtt_ms, bytes_each))
            local.append(_rate(network, arguments, 0.0, bytes_each))
            shares[index].append(2 * rates[index][-1] / (local[-2] + local[-1]))
    delayed = [
        {"rtt_ms": rtt_ms, "observations": spread(measured), "share": spread(share)}
        for rtt_ms, measured, share in zip(arguments.rtt_ms, rates, shares, strict=True)
    ]
    return {"local": spread(local), "delayed": delayed}


def _rate(network: SlowNetwork, arguments: argparse.Namespace, rtt_ms: float, bytes_each: float) -> float:
    """Observations/s that reach the learner."""
    network.change(Line(rtt_ms / 2000, arguments.mbit * 1e6 / 8))
    time.sleep(max(arguments.pause, 4 * rtt_ms / 1000))
    before, began = network.passed(), time.monotonic()
    time.sleep(arguments.seconds)
    after, ended = network.passed(), time.monotonic()
    if after.up == before.up:
        raise MeasurementFailed(f"nothing came through the network in {arguments.seconds:g} s")
    return (after.up - before.up) / bytes_each / (ended - began)


def table(result: dict[str, Any]) -> str:
    """For people."""
    measured = [row for row in result["rows"] if "failed" not in row]
    heads = ["envs", "groups", "each", "local\nobs./s", "learner\nwaits"]
    heads += [f"share at {rtt_ms:g} ms\nand its spread" for rtt_ms in result["rtt_ms"]]
    lines = [_what(result), columns(heads, [_cells(row) for row in measured])]
    lines += [
        sentence(f"{row['envs']} environments in {row['groups']} groups: {row['failed']}")
        for row in result["rows"]
        if "failed" in row
    ]
    return "\n".join([*lines, *map(sentence, recommendations(result))])


def _what(result: dict[str, Any]) -> str:
    actors = "one actor" if result["actors"] == 1 else f"{result['actors']} actors"
    limit = f", {result['mbit']:g} Mbit/s" if result["mbit"] else ""
    if not result["step_ms"]:
        return f"{actors}, whose environments are played on the learner's cores{limit}"
    cores = "one core" if result["cores"] == 1 else f"{result['cores']} cores"
    return f"{actors} of {cores}, {result['step_ms']:g} ms per step of an environment{limit}"


def _cells(row: dict[str, Any]) -> list[str]:
    shares = (delayed["share"] for delayed in row["delayed"])
    return [
        *(str(row[name]) for name in ("envs", "groups", "group_size")),
        number(row["local"]["median"]),
        f"{row['learner_waits']:.0%}",
        *(f"{share['median']:.2f} {min(share['repeats']):.2f}-{max(share['repeats']):.2f}" for share in shares),
    ]


def recommendations(result: dict[str, Any]) -> list[str]:
    """For each round trip, the smallest setting with at least `GOOD` of the local rate: environments, then groups."""
    found = []
    for index, rtt_ms in enumerate(result["rtt_ms"]):
        good = [
            row for row in result["rows"] if "failed" not in row and row["delayed"][index]["share"]["median"] >= GOOD
        ]
        if good:
            best = min(good, key=lambda row: (row["envs"], row["groups"]))
            share = best["delayed"][index]["share"]["median"]
            groups = "1 group" if best["groups"] == 1 else f"{best['groups']} groups"
            setting = f"{groups} of {best['group_size']} environments, {share:.2f}"
        else:
            setting = "none of these"
        found.append(f"least for {GOOD:.0%} of the local rate at {rtt_ms:g} ms: {setting}")
    return found
