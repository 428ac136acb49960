"""How the whole product scales with actor processes and environments: rate, CPU per frame and memory.

Each row is a run of `seed_rl train` in a log directory that goes away, watched from outside: its own metrics give the
environment frames, /proc the CPU seconds and the memory of the learner and of its actors, over some seconds after all
environments are there and the run is in its steady state. Memory is the proportional set size, in which pages shared
by several processes are divided among them; an actor's is the mean. Ratios are to 64 environments.

More environments than the machine can step are imitated: a `seed_rl learner` is served recorded steps, which take as
long as real ones and travel in gRPC's messages. CPU is then the learner's only, and ratios are to 64 imitated ones.
What would not fit into the memory is said before anything starts, and left out.
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import psutil

from benchmarks import flags
from benchmarks.children import Child, ask_all, call_in_child
from benchmarks.failures import MeasurementFailed
from benchmarks.layouts import REFERENCE_ENVS, Layout, Plan, plans, refusal
from benchmarks.product import Product, State, has_settled, product
from benchmarks.text import columns, number, sentence
from benchmarks.timing import medians, spreads
from benchmarks.traffic import Pace, Traffic, generator
from benchmarks.trial import START_SECONDS, Recorded, recorded, shares
from seed_rl import config_files
from seed_rl.envs.base import EnvConfig
from seed_rl.experiment import Actors, Experiment
from seed_rl.launch.native_output import import_quietly

_RECORDED_STEPS = 200

QUICK = {
    "gin_file": ["catch/vtrace"],
    "processes": "2",
    "envs_for_processes": 64,
    "envs": "64",
    "simulate": True,
    "settle": 0.0,
    "seconds": 0.5,
    "repeats": 1,
    "start_timeout": 60.0,
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Its flags."""
    flags.add_experiment(parser)
    parser.add_argument("--processes", type=flags.counts, default="1,2,4,8", help="numbers of actor processes")
    parser.add_argument("--envs_for_processes", type=flags.count, default=64, help="environments in all of them")
    parser.add_argument("--envs", type=flags.counts, default="16,64,256,1024,4096", help="numbers of environments")
    parser.add_argument(
        "--processes_for_envs", type=flags.count, default=2, help="actor processes they are spread over"
    )
    parser.add_argument("--largest_group", type=flags.count, default=32, help="environments of a group at the most")
    parser.add_argument("--max_batch_size", type=flags.count, default=64, help="environments per act step at the most")
    parser.add_argument("--simulate_above", type=flags.count, default=1024, help="more environments are imitated")
    parser.add_argument("--simulate", action="store_true", help="imitate all environments")
    parser.add_argument("--settle", type=flags.not_negative, default=10.0, help="seconds of the steady state before")
    parser.add_argument("--start_timeout", type=flags.positive, default=600.0, help="seconds until a run is steady")
    parser.add_argument("--seconds", type=flags.positive, default=10.0, help="for each measurement")
    parser.add_argument("--repeats", type=flags.count, default=3, help="measurements of each run; the median counts")


def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    """A row for each number of processes and of environments."""
    planned = plans(arguments)
    experiment = config_files.load(flags.gin_files(arguments), arguments.gin_param)
    costs = call_in_child(environment_costs, experiment.env)
    unique = list(dict.fromkeys(plan for sweep in planned.values() for plan in sweep))
    sized = [_sized(experiment, plan.layout, arguments.max_batch_size) for plan in unique]
    stores = store_bytes(sized)
    free = psutil.virtual_memory().available
    refused = {}
    for plan, store in zip(unique, stores, strict=True):
        sentence = refusal(plan.layout, store, costs["bytes"], plan.simulated, free)
        if sentence:
            print(sentence, file=sys.stderr, flush=True)
            refused[plan] = sentence
    with recorded(experiment, arguments.largest_group, _RECORDED_STEPS) as steps:
        rows = {
            plan: {"skipped": refused[plan]} if plan in refused else _row(plan, experiment, arguments, steps)
            for plan in unique
        }
    sweeps = {name: with_ratios([plan.describe() | rows[plan] for plan in sweep]) for name, sweep in planned.items()}
    return {"environment": costs, **sweeps}


def _sized(experiment: Experiment, spread: Layout, largest_batch: int) -> Experiment:
    return dataclasses.replace(
        experiment,
        actors=Actors(spread.processes, spread.groups, spread.group_size),
        inference=dataclasses.replace(experiment.inference, max_batch_size=max(largest_batch, spread.group_size)),
    )


def environment_costs(config: EnvConfig, few: int = 8, many: int = 40) -> dict[str, float]:
    """What one environment costs in an actor: `bytes` of resident memory, `start_ms` to build and reset, `step_ms`.

    Runs in a process of its own.
    """
    process = psutil.Process()
    envs, resident, seconds = [], [], []
    try:
        for count in (few, many):
            began = time.monotonic()
            envs.append(config.make(count))
            envs[-1].reset(seed=0)
            seconds.append(time.monotonic() - began)
            resident.append(process.memory_info().rss)
        actions = envs[-1].action_space.sample()
        began, rounds = time.monotonic(), 20
        for _ in range(rounds):
            envs[-1].step(actions)
        stepping = time.monotonic() - began
    finally:
        for env in envs:
            env.close()
    return {
        "bytes": (resident[1] - resident[0]) / many,
        "start_ms": 1000 * seconds[1] / many,
        "step_ms": 1000 * stepping / rounds / many,
    }


def store_bytes(sized: Sequence[Experiment]) -> list[int]:
    """Bytes of the unrolls that a learner of each experiment keeps."""
    import_quietly("benchmarks.components")  # TensorFlow and all
    from seed_rl.learner.store_size import store_size

    agent = sized[0].build_agent()
    return [store_size(experiment, agent, experiment.env.spec()).nbytes for experiment in sized]


def _row(plan: Plan, experiment: Experiment, arguments: argparse.Namespace, steps: Recorded) -> dict[str, Any]:
    """Medians over windows of one run; what fails is told in the row."""
    spread, simulated = plan
    start = _simulated_run if simulated else _real_run
    try:
        with start(spread, experiment, arguments, steps) as run:
            began = time.monotonic()
            state = run.wait_until(
                lambda rows: has_settled(rows, spread.environments, arguments.settle),
                arguments.start_timeout,
                f"the steady state of {spread.environments:,} environments",
            )
            started = time.monotonic() - began
            windows = []
            for _ in range(arguments.repeats):
                since = state.rows[-1]["seconds"]
                later = run.wait_until(
                    lambda rows, since=since: rows[-1]["seconds"] - since >= arguments.seconds,  # type: ignore[misc]
                    arguments.seconds + 120,
                    "metrics",
                )
                windows.append(window(state, later, simulated))
                state = later
    except MeasurementFailed as failed:
        return {"failed": str(failed)}
    return {"steady_after_s": started, **spreads(windows)}


def _product_arguments(spread: Layout, arguments: argparse.Namespace) -> list[str]:
    return [
        *(f"--gin_file={name}" for name in flags.gin_files(arguments)),
        *(f"--gin_param={binding}" for binding in arguments.gin_param),
        f"--gin_param=Actors.num_actors={spread.processes}",
        f"--gin_param=Actors.groups_per_actor={spread.groups}",
        f"--gin_param=Actors.envs_per_group={spread.group_size}",
        f"--gin_param=Inference.max_batch_size={max(arguments.max_batch_size, spread.group_size)}",
    ]


@contextmanager
def _real_run(
    spread: Layout, experiment: Experiment, arguments: argparse.Namespace, steps: Recorded
) -> Iterator[Product]:
    with product("train", _product_arguments(spread, arguments)) as run:
        yield run


@contextmanager
def _simulated_run(
    spread: Layout, experiment: Experiment, arguments: argparse.Namespace, steps: Recorded
) -> Iterator[Product]:
    """A learner, and recorded steps that take as long as real ones in place of its actors' environments."""
    with ExitStack() as cleanup:
        address = f"unix:{cleanup.enter_context(tempfile.TemporaryDirectory(prefix='seed_rl-'))}/learner.sock"
        learner_arguments = [*_product_arguments(spread, arguments), f"--server_address={address}"]
        run = cleanup.enter_context(product("learner", learner_arguments))
        senders = []
        for number, streams in enumerate(shares(spread.processes * spread.groups, min(2, spread.processes))):
            traffic = Traffic(
                address, experiment.env.spec(), steps.path, streams, spread.group_size, spread.processes, seed=number
            )
            senders.append(cleanup.enter_context(Child("the load generator", generator, traffic)))
        pace = Pace(steps.step_seconds * spread.group_size / steps.environments, 0.3, 0.1)
        for sender in senders:
            sender.wait_until_ready(START_SECONDS)
        ask_all(senders, pace, START_SECONDS)  # they go on at this pace
        yield run


def window(before: State, after: State, simulated: bool) -> dict[str, Any]:
    """One measurement: what happened between two states of a run.

    Returns:
      frames_per_second; learner_us, actors_us and total_us: CPU microseconds per environment frame (of the learner
      only, if the environments are simulated); bytes of the learner and of each actor.
    """
    frames = after.rows[-1]["env_frames"] - before.rows[-1]["env_frames"]
    seconds = after.rows[-1]["seconds"] - before.rows[-1]["seconds"]
    if frames <= 0:
        raise MeasurementFailed(f"no unroll was learned from in {seconds:.0f} s: measure for longer (--seconds)")
    learner = 1e6 * (after.learner.cpu_seconds - before.learner.cpu_seconds) / frames
    actors = 1e6 * (after.actors.cpu_seconds - before.actors.cpu_seconds) / frames
    row = {"frames_per_second": frames / seconds, "learner_us": learner}
    if not simulated:
        count = after.actors.processes
        row |= {"actors_us": actors, "total_us": learner + actors}
        row |= {"actor_rss": after.actors.rss_bytes / count, "actor_pss": after.actors.pss_bytes / count}
    return {**row, "learner_rss": after.learner.rss_bytes, "learner_pss": after.learner.pss_bytes}


def with_ratios(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows with `rate_ratio`, `learner_ratio` and `total_ratio`, to that of 64 environments and fewest processes.

    Simulated rows are compared with simulated ones, and real ones with real ones; without 64 environments, with the
    first that was measured.
    """
    names = {"frames_per_second": "rate_ratio", "learner_us": "learner_ratio", "total_us": "total_ratio"}
    references: dict[bool, dict[str, Any]] = {}
    for row in rows:
        first = references.get(row["simulated"])
        if "learner_us" in row and (first is None or first["environments"] != row["environments"] == REFERENCE_ENVS):
            references[row["simulated"]] = row
    return [
        {
            **row,
            **{
                ratio: medians(row)[name] / medians(references[row["simulated"]])[name]
                for name, ratio in names.items()
                if name in row
            },
        }
        for row in rows
    ]


def table(result: dict[str, Any]) -> str:
    """For people."""
    costs = result["environment"]
    lines = [
        f"one environment: {number(costs['bytes'] / 1e6)} MB, {number(costs['start_ms'])} ms to start, "
        f"{number(costs['step_ms'])} ms per step"
    ]
    for sweep, title in (("processes", "by actor processes"), ("envs", "by environments")):
        measured = [medians(row) for row in result[sweep] if "learner_us" in row]
        lines += ["", title, columns(_HEADS, [_cells(row) for row in measured])]
        for row in result[sweep]:
            if "learner_us" not in row:
                lines.append(sentence(f"{_spread(row)}: {row.get('skipped') or row['failed']}"))
    lines += [
        "",
        f"µs: CPU per environment frame; ratios: to {REFERENCE_ENVS} environments; recorded: steps in place of them;",
    ]
    return "\n".join([*lines, "PxGxE: actor processes, groups of each process, environments of each group."])


_HEADS = ["envs", "PxGxE", "steps", "frames/s", "ratio", "learner\nµs", "ratio", "all\nµs", "ratio"]
_HEADS += ["learner\nMB", "actor\nMB"]


def _spread(row: dict[str, Any]) -> str:
    return f"{row['processes']}x{row['groups']}x{row['group_size']}"


def _cells(row: dict[str, Any]) -> list[str]:
    real = "total_us" in row
    return [
        f"{row['environments']:,}",
        _spread(row),
        "recorded" if row["simulated"] else "real",
        number(row["frames_per_second"]),
        f"{row['rate_ratio']:.2f}",
        number(row["learner_us"]),
        f"{row['learner_ratio']:.2f}",
        number(row["total_us"]) if real else "-",
        f"{row['total_ratio']:.2f}" if real else "-",
        number(row["learner_pss"] / 1e6),
        number(row["actor_pss"] / 1e6) if real else "-",
    ]
