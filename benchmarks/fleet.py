"""A learner of a thousand actors, imitated on this machine: what it carries, and what breaks first.

Load generators imitate actors on other machines: each has a connection and a stream of its own, and sends recorded
steps through gRPC's messages, a step time after it got its actions. They run on the same cores as the learner: that
they are full is said, as the learner hasn't been tried then. A fleet is saturated when it gets less than 90 % of the
rate of an unloaded learner; what was full is told. Latencies count from when observations were due. CPU is told by the
threads that used it: the server's and gRPC's (wire), the inference thread, TensorFlow's and the one that trains.

The second table is a model, and not measured: the actors that one learner host would carry by the CPU that
observations took here, of the largest fleet flat out. It assumes:

- Two threads are serial, however many cores there are. The server's takes and decodes messages: it never does more
  than 1 / (its CPU time per message). The inference thread batches, acts and sends the answers.
- Without an accelerator, what the inference thread itself computes and sends is serial; TensorFlow's pool shares the
  rest evenly over all cores. That flatters machines with many cores and small batches.
- With one, full batches come one after another, each takes the given milliseconds (copies included) and the inference
  thread's own work, which doesn't overlap with it. The accelerator does nothing else.
- The cost of the server's thread, and with an accelerator that of batching and of sending answers, are those of a
  saturated server that answers with zeros.
- All cores are the learner's, as fast as these; Python's lock is not contended more than it was; the network card
  carries it. With --train the costs of acting include those of the training beside it.
- An actor sends its group's observations once per step time. What it waits for answers is left out: with it, more
  actors would be carried.
"""

from __future__ import annotations

import argparse
import os
import resource
from collections.abc import Sequence
from typing import Any

import psutil

from benchmarks import flags, host, pacing, usage
from benchmarks.failures import MeasurementFailed
from benchmarks.saturation import Load, first_limit, keeps_up
from benchmarks.text import columns, number, sentence
from benchmarks.timing import medians, spreads
from benchmarks.traffic import Pace
from benchmarks.trial import Generators, Recorded, Trial, recorded, trial
from seed_rl import config_files
from seed_rl.capacity import Accelerator, Costs, capacity
from seed_rl.experiment import Experiment

_RECORDED_STEPS = 300
_HOSTS = (2, 8, 32, 96)

QUICK = {
    "gin_file": ["catch/vtrace"],
    "actors": "6",
    "group_sizes": "2",
    "step_ms": 10.0,
    "max_batch_size": 8,
    "train": True,
    "seconds": 0.7,
    "repeats": 1,
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Its flags."""
    flags.add_experiment(parser)
    parser.add_argument("--actors", type=flags.counts, default="16,32,64,128,256,512,1024", help="numbers of actors")
    parser.add_argument("--group_sizes", type=flags.counts, default="1,4,16", help="environments of an actor")
    parser.add_argument(
        "--step_ms", type=flags.not_negative, default=50.0, help="of a group; 0: as long as the recorded ones took"
    )
    parser.add_argument("--jitter", type=flags.share, default=0.3, help="step times vary by this share, up and down")
    parser.add_argument("--max_batch_size", type=flags.count, default=64, help="environments per act step at the most")
    parser.add_argument("--train", action="store_true", help="train on the unrolls, instead of giving them back")
    parser.add_argument("--generators", type=flags.count, default=1, help="processes that make the load")
    parser.add_argument("--accelerator_ms", type=flags.positive, default=2.0, help="the model's, per act step")
    parser.add_argument("--accelerator_batch", type=flags.count, default=256, help="the model's observations per step")
    parser.add_argument("--seconds", type=flags.positive, default=5.0, help="for each measurement")
    parser.add_argument("--repeats", type=flags.count, default=3, help="measurements of each fleet; the median counts")


def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    """A row for each number of actors and group size, and what a host would carry by the model."""
    counts, sizes = sorted(set(arguments.actors)), sorted(set(arguments.group_sizes))
    experiment = config_files.load(flags.gin_files(arguments), arguments.gin_param)
    accelerator = Accelerator(arguments.accelerator_batch, arguments.accelerator_ms / 1000)
    groups = []
    with recorded(experiment, max(16, *sizes), _RECORDED_STEPS) as steps:
        for size in sizes:
            step_seconds = arguments.step_ms / 1000 or steps.step_seconds * size / steps.environments
            pace = Pace(step_seconds, arguments.jitter, arguments.seconds)
            rows, flat_out = _fleets(experiment, arguments, size, counts, pace, steps)
            null = _null(experiment, arguments, size, counts, steps)
            groups.append(_summary(size, step_seconds, rows, flat_out, null, accelerator))
    return {
        "cores": os.cpu_count(),
        "jitter": arguments.jitter,
        "training": arguments.train,
        "accelerator": accelerator._asdict(),
        "groups": groups,
    }


def _fleets(
    experiment: Experiment,
    arguments: argparse.Namespace,
    size: int,
    counts: Sequence[int],
    pace: Pace,
    steps: Recorded,
) -> tuple[list[dict[str, Any]], dict[str, Any] | None]:
    """Growing fleets of groups of one size. A fleet that can't be served at all is a row that says why.

    Returns:
      The rows, and one more: the largest fleet that was served, sending as soon as it is answered; None without any.
    """
    model = host.TRAIN if arguments.train else host.ACT
    unloaded_latency: float | None = None
    rows: list[dict[str, Any]] = []
    flat_out: dict[str, Any] | None = None
    for count in counts:
        generators = Generators(count, size, arguments.generators)
        try:
            with trial(experiment, model, arguments.max_batch_size, generators, steps) as running:
                measured = [
                    _row(running, generators, pace, unloaded_latency, settle=pace.step_seconds + pace.seconds / 2)
                    for _ in range(arguments.repeats)
                ]
                if count == counts[-1]:
                    full = Pace(0.0, 0.0, pace.seconds)
                    flat_out = spreads([_row(running, generators, full, None, settle=pace.seconds / 2)])
        except MeasurementFailed as failed:
            rows.append({"actors": count, "failed": str(failed), "limit": f"failed: {failed}"})
            continue
        environments = count * size
        offered = environments / pace.step_seconds
        row = {"actors": count, "environments": environments, "offered": offered, **spreads(measured)}
        middle = medians(row)
        unloaded_latency = unloaded_latency or middle["mean_ms"] / 1000
        rows.append({**row, "limit": first_limit(_load_of(middle))})
    return rows, flat_out


def _row(
    running: Trial, generators: Generators, pace: Pace, unloaded_latency: float | None, settle: float
) -> dict[str, Any]:
    seen, used, after = running.run(pace, settle)
    mean = float(seen.latencies.mean())
    expected = pacing.rate_at(
        generators.streams,
        generators.group_size,
        pace.step_seconds,
        mean if unloaded_latency is None else unloaded_latency,
    )
    return {
        "unloaded": expected,
        "achieved": seen.observations_per_second,
        "mean_ms": 1000 * mean,
        **pacing.percentiles(seen.latencies),
        "late_p99": pacing.percentiles(seen.lags)["p99"],
        "unanswered": seen.unanswered,
        "batch": used.observations / used.batches,
        "batch_fill": used.batch_fill,
        "act_ms": used.act_ms,
        "acting": used.acting,
        "blocked": used.blocked,
        "updates_per_second": used.updates / used.seconds,
        "server": used.server,
        "inference": used.cores[usage.INFERENCE],
        **{f"cores/{kind}": cores for kind, cores in used.cores.items()},
        "cpu_us_per_observation": 1e6 * used.cpu_seconds / used.observations,
        "serial_s_per_observation": used.cores[usage.INFERENCE] * used.seconds / used.observations,
        "parallel_s_per_observation": (used.cores[usage.TENSORFLOW] + used.cores[usage.LEARNER])
        * used.seconds
        / used.observations,
        "machine": used.machine,
        "generator_cpu": seen.cpu_share,
        "file_descriptors": after.file_descriptors,
        "file_descriptor_limit": resource.getrlimit(resource.RLIMIT_NOFILE)[0],
        "learner_bytes": after.rss_bytes,
    }


def _load_of(row: dict[str, Any]) -> Load:
    return Load(
        keeps_up=keeps_up(row["achieved"], row["unloaded"]),
        generator=row["generator_cpu"],
        server=row["server"],
        inference=row["inference"],
        acting=row["acting"],
        blocked=row["blocked"],
        machine=row["machine"],
        file_descriptors=row["file_descriptors"] / row["file_descriptor_limit"],
        memory=row["learner_bytes"] / psutil.virtual_memory().total,
    )


def _null(
    experiment: Experiment,
    arguments: argparse.Namespace,
    size: int,
    counts: Sequence[int],
    steps: Recorded,
) -> dict[str, Any]:
    """CPU seconds of the server with the null model, when streams send as soon as they are answered."""
    seconds = arguments.seconds
    generators = Generators(min(64, max(counts)), size, arguments.generators)
    with trial(experiment, host.NULL, 4 * arguments.max_batch_size, generators, steps) as running:
        seen, used, _ = running.run(Pace(0.0, 0.0, seconds), settle=min(1.0, seconds))
    measured = {
        "observations_per_second": seen.observations_per_second,
        "server_s_per_message": used.server * used.seconds / used.messages,
        "transport_s_per_observation": used.cores[usage.TRANSPORT] * used.seconds / used.observations,
        "host_s_per_observation": used.cores[usage.INFERENCE] * used.seconds / used.observations,
        "generator_cpu": seen.cpu_share,
    }
    return spreads([measured])


def _summary(
    size: int,
    step_seconds: float,
    rows: list[dict[str, Any]],
    flat_out: dict[str, Any] | None,
    null: dict[str, Any],
    accelerator: Accelerator,
) -> dict[str, Any]:
    """One group size: its rows, where it saturates, and what hosts would carry by the costs of a learner flat out."""
    summary = {"group_size": size, "step_ms": 1000 * step_seconds, "rows": rows, "flat_out": flat_out, "null": null}
    summary |= saturation(rows)
    if flat_out is None:
        return {**summary, "hosts": []}
    bare, full = medians(null), medians(flat_out)
    costs = Costs(
        group_size=size,
        server_per_message=bare["server_s_per_message"],
        transport_per_observation=bare["transport_s_per_observation"],
        host_per_observation=bare["host_s_per_observation"],
        act_serial_per_observation=full["serial_s_per_observation"],
        act_parallel_per_observation=full["parallel_s_per_observation"],
    )
    hosts = [
        {"cores": cores, "accelerator": using is not None, **capacity(costs, cores, step_seconds, using)._asdict()}
        for using in (None, accelerator)
        for cores in _HOSTS
    ]
    return {**summary, "costs": costs._asdict(), "hosts": hosts}


def saturation(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Where growing fleets saturate.

    Returns:
      saturated_at: actors of the first fleet that doesn't get the rate of an unloaded learner; None if all do.
      most: observations/s, the highest of all fleets; 0 if none was served.
      broke_first: what was full there, in words.
    """
    first = next((row for row in rows if row["limit"]), None)
    return {
        "saturated_at": None if first is None else first["actors"],
        "most": max((medians(row)["achieved"] for row in rows if "failed" not in row), default=0.0),
        "broke_first": "" if first is None else first["limit"],
    }


def table(result: dict[str, Any]) -> str:
    """For people."""
    groups = [line for group in result["groups"] for line in _group_lines(group)]
    return "\n".join([*groups, *_model_lines(result)])


_KINDS = {usage.TRANSPORT: "wire", usage.INFERENCE: "infer", usage.TENSORFLOW: "TF", usage.LEARNER: "learn"}


def _group_lines(group: dict[str, Any]) -> list[str]:
    heads = ["actors", "offered\n/s", "achieved\n/s", "p50\nms", "p99\nms", "batch"]
    heads += [f"{name}\ncores" for name in _KINDS.values()] + ["machine\nbusy", "MB", "fds"]
    rows = []
    for row in (medians(row) for row in group["rows"] if "failed" not in row):
        rows.append(
            [
                f"{row['actors']:,}",
                *(number(row[name]) for name in ("offered", "achieved", "p50", "p99", "batch")),
                *(f"{row[f'cores/{kind}']:.2f}" for kind in _KINDS),
                f"{row['machine']:.0%}",
                number(row["learner_bytes"] / 1e6),
                f"{row['file_descriptors']:,.0f}",
            ]
        )
    lines = [f"actors of {group['group_size']} environments, {group['step_ms']:.3g} ms per step", columns(heads, rows)]
    lines += [sentence(f"{row['actors']:,} actors: {row['failed']}") for row in group["rows"] if "failed" in row]
    if group["flat_out"] is not None:
        flat_out = medians(group["flat_out"])
        lines.append(
            f"flat out: {number(flat_out['achieved'])} observations/s, {flat_out['cpu_us_per_observation']:.0f} µs of "
            f"CPU each, batches of {flat_out['batch']:.0f} in {flat_out['act_ms']:.1f} ms"
        )
    null = medians(group["null"])
    lines.append(
        f"without a network: {number(null['observations_per_second'])} observations/s, the server's thread takes "
        f"{1e6 * null['server_s_per_message']:.0f} µs per message"
    )
    if group["saturated_at"] is None:
        lines.append("not saturated by any of these fleets")
    else:
        lines.append(sentence(f"saturated at {group['saturated_at']:,} actors; first of all, {group['broke_first']}"))
    return [*lines, ""]


def _model_lines(result: dict[str, Any]) -> list[str]:
    accelerator = result["accelerator"]
    given = f"{accelerator['batch']} in {1000 * accelerator['seconds_per_batch']:g} ms"
    rows = []
    for group in result["groups"]:
        for accelerated in (False, True):
            hosts = [entry for entry in group["hosts"] if entry["accelerator"] == accelerated]
            if hosts:
                name = "accelerator" if accelerated else "CPU"
                carried = (f"{entry['actors']:,}" for entry in hosts)
                rows.append([str(group["group_size"]), name, *carried, hosts[-1]["limit"]])
    heads = ["envs\neach", "act step on", *(f"{cores}\ncores" for cores in _HOSTS), "limit with\nthe most"]
    return [
        f"actors that one learner host carries by the model, of which --help tells; accelerator: {given}",
        columns(heads, rows),
    ]
