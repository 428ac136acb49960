"""The learner's memory: linear in the unrolls that it keeps, and flat over a run."""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import psutil

from seed_rl import experiment as experiments
from seed_rl.bench.children import ChildFailed, call_in_child
from seed_rl.bench.pacing import median_of
from seed_rl.bench.product import has_settled, product
from seed_rl.experiment import Experiment

SUMMARY = "the learner's resident memory: by unrolls kept, against the bytes of their tensors, and over a run"

_START_SECONDS = 300.0
_FILL_AT_ONCE = 256


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Of `measure`."""
    parser.add_argument("--gin_file", action="append", help="experiment; by default atari/vtrace_pong")
    parser.add_argument("--gin_param", action="append", default=[], help="gin binding")
    parser.add_argument("--unrolls", default="256,1024,2048,4096,8192", help="numbers of unrolls kept")
    parser.add_argument("--minutes", type=float, default=2.0, help="of the run whose memory is to be flat; 0: none")
    parser.add_argument("--sample_s", type=float, default=10.0, help="seconds between looks at the run's memory")
    parser.add_argument("--warm_up_s", type=float, default=30.0, help="seconds of the run before the first look")
    parser.add_argument("--repeats", type=int, default=3, help="processes for each number of unrolls")


def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    """Both measurements; the second one only if `--minutes` says so.

    Raises:
      ChildFailed: a learner failed.
      ConfigError: the experiment can't be run.
      ValueError: an argument that can't be.
    """
    try:
        counts = sorted({int(number) for number in arguments.unrolls.split(",")})
    except ValueError:
        raise ValueError(f"--unrolls takes whole numbers with commas between, got {arguments.unrolls!r}") from None
    if len(counts) < 2 or counts[0] < 1:
        raise ValueError(f"--unrolls takes at least two numbers from 1, got {arguments.unrolls!r}")
    minutes, sample, warm_up, repeats = arguments.minutes, arguments.sample_s, arguments.warm_up_s, arguments.repeats
    if getattr(arguments, "quick", False):
        counts, minutes, sample, warm_up, repeats = [counts[0], counts[-1]], min(minutes, 0.1), 1.0, 1.0, 1
    if 0 < 60 * minutes < 2 * sample:
        raise ValueError(
            f"--minutes={minutes:g} is too short for three looks at the memory, {sample:g} s apart (--sample_s)"
        )
    gin_files = arguments.gin_file or ["atari/vtrace_pong"]
    experiment = experiments.load(gin_files, arguments.gin_param)
    result = {"unrolls": by_unrolls(experiment, counts, repeats)}
    if minutes > 0:
        passed_on = [f"--gin_file={name}" for name in gin_files] + [f"--gin_param={b}" for b in arguments.gin_param]
        result["run"] = over_a_run(passed_on, experiment.actors.num_envs, 60 * minutes, sample, warm_up)
    return result


def by_unrolls(experiment: Experiment, counts: Sequence[int], repeats: int) -> dict[str, Any]:
    """Resident bytes of learners that keep these numbers of unrolls, all of them written, and the line through them.

    Returns:
      rows: `unrolls`, `store_bytes` and `resident_bytes` of each; slope: resident bytes per unroll; each: bytes of
      the tensors of one; ratio: the first over the second; residual: see `line_fit`.
    """
    rows = []
    for count in counts:
        measured = [call_in_child(resident_with, experiment, count) for _ in range(repeats)]
        rows.append(median_of(measured))
    fit = line_fit([row["unrolls"] for row in rows], [row["resident_bytes"] for row in rows])
    each = rows[0]["each_bytes"]
    return {"rows": rows, **fit, "each": each, "ratio": fit["slope"] / each}


def resident_with(experiment: Experiment, more: int) -> dict[str, float]:
    """A learner's acting half with slots for `more` unrolls besides those in progress, compiled and all slots written.

    Runs in a process of its own. Every slot is written: memory that never was isn't resident.
    """
    import tensorflow as tf

    from seed_rl.buffers.placement import sequence_nbytes
    from seed_rl.buffers.unroll_store import StepWrites
    from seed_rl.inference.act_step import unroll_step_spec
    from seed_rl.inference.acting import Acting

    agent = experiment.build_agent()
    env_spec = experiment.env.spec()
    spec = unroll_step_spec(agent, env_spec)
    acting = Acting(experiment, agent, env_spec, experiment.seed, more)
    acting.act_step.warm_up()
    store = acting.store
    write = tf.function(store.write, jit_compile=True)  # in place, as the act step writes
    step = tf.nest.map_structure(lambda tensor: tf.ones([_FILL_AT_ONCE, *tensor.shape], tensor.dtype), spec)
    for start in range(0, store.num_slots, _FILL_AT_ONCE):
        slots = tf.minimum(tf.range(start, start + _FILL_AT_ONCE), store.num_slots)
        for position in range(store.length):
            write(StepWrites(slots[None], tf.fill([1, _FILL_AT_ONCE], position), slots), step)
    return {
        "unrolls": store.num_slots,
        "each_bytes": sequence_nbytes(spec, agent.length),
        "store_bytes": store.nbytes,
        "resident_bytes": psutil.Process().memory_info().rss,
    }


def line_fit(x: Sequence[float], y: Sequence[float]) -> dict[str, float]:
    """The straight line through points by least squares.

    Returns:
      `slope`, `intercept`, and `residual`: the largest distance of a point from the line over the range of y (0 where
      all y are the same).

    Raises:
      ValueError: fewer than two different x.
    """
    xs, ys = np.asarray(x, np.float64), np.asarray(y, np.float64)
    if len(np.unique(xs)) < 2:
        raise ValueError(f"a line takes at least two different places, got {xs.tolist()}")
    centred = xs - xs.mean()
    slope = float(np.sum(centred * (ys - ys.mean())) / np.sum(centred**2))
    intercept = float(ys.mean() - slope * xs.mean())
    spread = float(np.ptp(ys))
    residual = float(np.max(np.abs(ys - intercept - slope * xs))) / spread if spread > 0 else 0.0
    return {"slope": slope, "intercept": intercept, "residual": residual}


def over_a_run(
    product_arguments: Sequence[str], environments: int, seconds: float, sample: float, warm_up: float
) -> dict[str, Any]:
    """Memory of `seed_rl train` from `warm_up` seconds after its steady state begins, a look every `sample` seconds.

    Returns:
      samples: seconds and resident bytes of the learner and of all actors, at each look; learner and actors: see
      `drift`; checkpoints and metrics are written meanwhile as the configuration says.
    """
    with product("train", product_arguments) as run:
        run.wait_until(
            lambda rows: has_settled(rows, environments, warm_up), _START_SECONDS + warm_up, "a steady state"
        )
        began = time.monotonic()
        samples: list[dict[str, float]] = []
        actors = run.state().actors.processes
        while not samples or time.monotonic() - began <= seconds:
            state = run.state()
            if state.actors.processes != actors:
                raise ChildFailed(f"{state.actors.processes} of {actors} actors are left: see to that before memory")
            elapsed = time.monotonic() - began
            samples.append({"seconds": elapsed, "learner": state.learner.rss_bytes, "actors": state.actors.rss_bytes})
            time.sleep(max(0.0, sample * len(samples) - (time.monotonic() - began)))
    times = [entry["seconds"] for entry in samples]
    return {
        "samples": samples,
        **{name: drift(times, [entry[name] for entry in samples]) for name in ("learner", "actors")},
    }


def drift(seconds: Sequence[float], resident: Sequence[float]) -> dict[str, float]:
    """How memory moved over a run.

    Args:
      seconds: of each look, at least three.
      resident: bytes at each.

    Returns:
      first_third and last_third: mean bytes; growth: the second over the first, minus 1; mb_per_hour: slope of the
      line through all.

    Raises:
      ValueError: fewer than three looks.
    """
    third = len(resident) // 3
    if third < 1:
        raise ValueError(
            f"a drift takes three looks at the memory or more, got {len(resident)}: --minutes is too short"
        )
    first, last = float(np.mean(resident[:third])), float(np.mean(resident[-third:]))
    slope = line_fit(seconds, resident)["slope"]
    return {"first_third": first, "last_third": last, "growth": last / first - 1, "mb_per_hour": slope * 3600 / 1e6}


def table(result: dict[str, Any]) -> str:
    """For people."""
    by_count = result["unrolls"]
    lines = [f"{'unrolls':>10}{'tensors MB':>12}{'resident MB':>13}"]
    for row in by_count["rows"]:
        lines.append(f"{row['unrolls']:10,}{row['store_bytes'] / 1e6:12,.1f}{row['resident_bytes'] / 1e6:13,.1f}")
    lines.append(
        f"{by_count['slope']:,.0f} resident bytes per unroll, whose tensors are {by_count['each']:,}: ratio "
        f"{by_count['ratio']:.3f}; besides {by_count['intercept'] / 1e6:,.0f} MB"
    )
    lines.append(f"largest distance of a point from the line: {by_count['residual']:.1%} of the range")
    if "run" in result:
        run = result["run"]
        lines += ["", f"over {run['samples'][-1]['seconds'] / 60:.1f} minutes of training, {len(run['samples'])} looks"]
        lines.append(f"{'':8}{'first third':>13}{'last third':>13}{'growth':>9}{'slope':>16}")
        for name in ("learner", "actors"):
            moved = run[name]
            lines.append(
                f"{name:8}{moved['first_third'] / 1e6:10,.1f} MB{moved['last_third'] / 1e6:10,.1f} MB"
                f"{moved['growth']:9.2%}{moved['mb_per_hour']:11,.1f} MB/h"
            )
    return "\n".join(lines)
