"""A learner of a thousand actors, imitated on this machine: what it carries, and what breaks first."""

from __future__ import annotations

import argparse
import os
import resource
from collections.abc import Sequence
from typing import Any

import psutil

from seed_rl import experiment as experiments
from seed_rl.bench import host, pacing, usage
from seed_rl.bench.capacity import ASSUMPTIONS, Accelerator, Costs, Load, capacity, first_limit, keeps_up
from seed_rl.bench.children import ChildFailed
from seed_rl.bench.traffic import Pace
from seed_rl.bench.trial import Load as Generators
from seed_rl.bench.trial import Recorded, Trial, recorded, trial
from seed_rl.experiment import Experiment

SUMMARY = "a fleet of actors from recorded steps: where the learner saturates and on what, and a model of larger hosts"

_RECORDED_STEPS = 300
_HOSTS = (2, 8, 32, 96)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Of `measure`."""
    parser.add_argument("--gin_file", action="append", help="experiment; by default atari/vtrace_pong")
    parser.add_argument("--gin_param", action="append", default=[], help="gin binding")
    parser.add_argument("--actors", default="16,32,64,128,256,512,1024", help="numbers of actors, a stream each")
    parser.add_argument("--group_sizes", default="1,4,16", help="environments of an actor")
    parser.add_argument(
        "--step_ms", type=float, default=50.0, help="of an actor's group; 0: as long as the recorded ones took"
    )
    parser.add_argument("--jitter", type=float, default=0.3, help="step times vary by this share in both directions")
    parser.add_argument("--max_batch_size", type=int, default=64, help="environments per act step at the most")
    parser.add_argument("--train", action="store_true", help="train on the unrolls, instead of giving them back")
    parser.add_argument("--seconds", type=float, default=5.0, help="per measurement")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--generators", type=int, default=1, help="processes that make the load")
    parser.add_argument("--accelerator_ms", type=float, default=2.0, help="for the model: per act step, with copies")
    parser.add_argument("--accelerator_batch", type=int, default=256, help="for the model: observations per act step")


def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    """A row for each number of actors and group size, and what a host would carry by the model.

    Raises:
      ChildFailed: the null model could not be measured.
      ConfigError: the experiment can't be run.
      ValueError: an argument that can't be.
    """
    counts, sizes = _numbers("actors", arguments.actors), _numbers("group_sizes", arguments.group_sizes)
    seconds, repeats = arguments.seconds, arguments.repeats
    if getattr(arguments, "quick", False):
        counts, sizes, seconds, repeats = counts[:2], sizes[:1], min(seconds, 1.0), 1
    experiment = experiments.load(arguments.gin_file or ["atari/vtrace_pong"], arguments.gin_param)
    accelerator = Accelerator(arguments.accelerator_batch, arguments.accelerator_ms / 1000)
    groups = []
    with recorded(experiment, max(16, *sizes), _RECORDED_STEPS) as steps:
        for size in sizes:
            step_seconds = arguments.step_ms / 1000 or steps.step_seconds * size / steps.environments
            pace = Pace(step_seconds, arguments.jitter, seconds)
            rows, flat_out = _fleets(experiment, arguments, size, counts, pace, repeats, steps)
            null = _null(experiment, arguments, size, counts, seconds, steps)
            groups.append(_summary(size, step_seconds, rows, flat_out, null, accelerator))
    return {
        "cores": os.cpu_count(),
        "jitter": arguments.jitter,
        "training": arguments.train,
        "accelerator": accelerator._asdict(),
        "assumptions": list(ASSUMPTIONS),
        "groups": groups,
    }


def _numbers(flag: str, text: str) -> list[int]:
    try:
        numbers = sorted({int(part) for part in text.split(",")})
    except ValueError:
        raise ValueError(f"--{flag} takes whole numbers with commas between, got {text!r}") from None
    if numbers[0] < 1:
        raise ValueError(f"--{flag} takes numbers from 1, got {text!r}")
    return numbers


def _fleets(
    experiment: Experiment,
    arguments: argparse.Namespace,
    size: int,
    counts: Sequence[int],
    pace: Pace,
    repeats: int,
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
                    for _ in range(repeats)
                ]
                if count == counts[-1]:
                    flat_out = _row(running, generators, Pace(0.0, 0.0, pace.seconds), None, settle=pace.seconds / 2)
        except ChildFailed as failed:
            rows.append({"actors": count, "failed": str(failed), "limit": f"failed: {failed}"})
            continue
        row = pacing.median_of(measured)
        row["limit"] = first_limit(_load_of(row))
        unloaded_latency = unloaded_latency or row["mean_ms"] / 1000
        rows.append(row)
    return rows, flat_out


def _row(
    running: Trial, generators: Generators, pace: Pace, unloaded_latency: float | None, settle: float
) -> dict[str, Any]:
    seen, used, after = running.run(pace, settle)
    mean = float(seen.latencies.mean())
    environments = generators.streams * generators.group_size
    expected = pacing.rate_at(
        generators.streams,
        generators.group_size,
        pace.step_seconds,
        mean if unloaded_latency is None else unloaded_latency,
    )
    return {
        "actors": generators.streams,
        "environments": environments,
        "offered": environments / pace.step_seconds if pace.step_seconds else None,
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
        "event_loop": used.event_loop,
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
        event_loop=row["event_loop"],
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
    seconds: float,
    steps: Recorded,
) -> dict[str, float]:
    """CPU seconds of the server with the null model, when streams send as soon as they are answered."""
    generators = Generators(min(64, max(counts)), size, arguments.generators)
    with trial(experiment, host.NULL, 4 * arguments.max_batch_size, generators, steps) as running:
        seen, used, _ = running.run(Pace(0.0, 0.0, seconds), settle=min(1.0, seconds))
    return {
        "observations_per_second": seen.observations_per_second,
        "event_loop_s_per_message": used.event_loop * used.seconds / used.messages,
        "transport_s_per_observation": used.cores[usage.TRANSPORT] * used.seconds / used.observations,
        "host_s_per_observation": used.cores[usage.INFERENCE] * used.seconds / used.observations,
        "generator_cpu": seen.cpu_share,
    }


def _summary(
    size: int,
    step_seconds: float,
    rows: list[dict[str, Any]],
    flat_out: dict[str, Any] | None,
    null: dict[str, float],
    accelerator: Accelerator,
) -> dict[str, Any]:
    """One group size: its rows, where it saturates, and what hosts would carry by the costs of a learner flat out."""
    summary = {"group_size": size, "step_ms": 1000 * step_seconds, "rows": rows, "flat_out": flat_out, "null": null}
    summary |= saturation(rows)
    if flat_out is None:
        return {**summary, "hosts": []}
    costs = Costs(
        group_size=size,
        event_loop_per_message=null["event_loop_s_per_message"],
        transport_per_observation=null["transport_s_per_observation"],
        host_per_observation=null["host_s_per_observation"],
        act_serial_per_observation=flat_out["serial_s_per_observation"],
        act_parallel_per_observation=flat_out["parallel_s_per_observation"],
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
        "most": max((row["achieved"] for row in rows if "failed" not in row), default=0.0),
        "broke_first": "" if first is None else first["limit"],
    }


def table(result: dict[str, Any]) -> str:
    """For people."""
    return "\n".join(
        [
            *(line for group in result["groups"] for line in _group_lines(group)),
            *_model_lines(result),
            "The load generator runs on the same cores. Latencies count from when observations were due.",
            "wire, infer, TF, learn: cores that the learner's threads of gRPC, acting, TensorFlow and updates used.",
        ]
    )


def _group_lines(group: dict[str, Any]) -> list[str]:
    lines = [
        f"actors of {group['group_size']} environments, {group['step_ms']:.3g} ms per step",
        f"{'actors':>7}{'offered/s':>10}{'achieved/s':>11}{'p50 ms':>8}{'p99 ms':>8}{'batch':>7}{'fill':>6}"
        f"{'wire':>6}{'infer':>6}{'TF':>6}{'learn':>6}{'machine':>8}{'MB':>7}{'fds':>6}",
    ]
    for row in group["rows"]:
        if "failed" in row:
            lines.append(f"{row['actors']:7,} {row['failed']}")
            continue
        cores = [row[f"cores/{kind}"] for kind in (usage.TRANSPORT, usage.INFERENCE, usage.TENSORFLOW, usage.LEARNER)]
        lines.append(
            f"{row['actors']:7,}{row['offered']:10,.0f}{row['achieved']:11,.0f}{row['p50']:8.1f}{row['p99']:8.1f}"
            f"{row['batch']:7.1f}{row['batch_fill']:6.0%}"
            + "".join(f"{used:6.2f}" for used in cores)
            + f"{row['machine']:8.0%}{row['learner_bytes'] / 1e6:7,.0f}{row['file_descriptors']:6}"
        )
    null, flat_out = group["null"], group["flat_out"]
    if flat_out is not None:
        lines.append(
            f"flat out: {flat_out['achieved']:,.0f} observations/s, {flat_out['cpu_us_per_observation']:.0f} µs of CPU "
            f"each, batches of {flat_out['batch']:.0f} in {flat_out['act_ms']:.1f} ms"
        )
    lines.append(
        f"without a network: {null['observations_per_second']:,.0f} observations/s, event loop "
        f"{1e6 * null['event_loop_s_per_message']:.0f} µs per message"
    )
    if group["saturated_at"] is None:
        lines.append("not saturated by any of these fleets")
    else:
        lines.append(f"saturated at {group['saturated_at']:,} actors. First: {group['broke_first']}")
    return [*lines, ""]


def _model_lines(result: dict[str, Any]) -> list[str]:
    accelerator = result["accelerator"]
    given = f"{accelerator['batch']} in {1000 * accelerator['seconds_per_batch']:g} ms"
    lines = [
        f"by the model: actors that one learner host carries; accelerator: {given}",
        f"{'envs each':>9}{'step ms':>9}  {'act step on':12}"
        + "".join(f"{f'{cores} cores':>12}" for cores in _HOSTS)
        + "  limit with the most cores",
    ]
    for group in result["groups"]:
        for accelerated in (False, True):
            hosts = [entry for entry in group["hosts"] if entry["accelerator"] == accelerated]
            if hosts:
                lines.append(
                    f"{group['group_size']:9}{group['step_ms']:9.3g}  {'accelerator' if accelerated else 'CPU':12}"
                    + "".join(f"{entry['actors']:12,}" for entry in hosts)
                    + f"  {hosts[-1]['limit']}"
                )
    if result["training"]:
        lines.append("The costs of acting include those of the training beside it.")
    return [*lines, "It assumes:", *(f"- {assumption}" for assumption in result["assumptions"]), ""]
