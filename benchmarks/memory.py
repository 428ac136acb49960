"""The learner's memory: linear in the unrolls that it keeps, and flat over a run.

Acting halves of learners that keep more and more unrolls, each in a process of its own, are compiled and write all of
their slots, as memory that was never written isn't resident. The slope of the line through their resident bytes is
what an unroll costs, which is compared with the bytes of its tensors.

Then `seed_rl train` runs for some minutes, with checkpoints and metrics as its configuration says; from its steady
state on the resident memory of the learner and of all actors together is looked at every few seconds. Its growth is
from the mean of the first third of the looks to that of the last. --minutes is as long as the question needs: an
allocator settles for some minutes. With --logdir the run's log directory is kept: its metrics are a learning curve, of
a run without an end (whose learning rate, if it is to fall until the end, stays).
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import psutil

from benchmarks import flags
from benchmarks.children import call_in_child
from benchmarks.failures import BadArguments, MeasurementFailed
from benchmarks.product import has_settled, product
from benchmarks.text import columns, number
from benchmarks.timing import medians, spreads
from seed_rl import config_files
from seed_rl.experiment import Experiment
from seed_rl.launch.native_output import import_quietly

_START_SECONDS = 300.0
_FILL_AT_ONCE = 256


QUICK = {
    "gin_file": ["catch/vtrace"],
    "gin_param": ["Catch.rows=80", "Catch.columns=80"],
    "unrolls": "64,2624",
    "minutes": 0.0,
    "repeats": 1,
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Its flags."""
    flags.add_experiment(parser)
    parser.add_argument("--unrolls", type=flags.counts, default="256,1024,2048,4096,8192", help="numbers kept")
    parser.add_argument("--minutes", type=flags.not_negative, default=2.0, help="of the run; 0: there is none")
    parser.add_argument("--sample_s", type=flags.positive, default=10.0, help="seconds between looks at the run")
    parser.add_argument("--warm_up_s", type=flags.not_negative, default=30.0, help="seconds before the first look")
    parser.add_argument("--logdir", help="keeps the run's log directory, which must not hold a run yet")
    parser.add_argument("--repeats", type=flags.count, default=3, help="processes for each number of unrolls")


def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    """Both measurements; the second one only if `--minutes` says so."""
    counts = sorted(set(arguments.unrolls))
    minutes, sample, logdir = arguments.minutes, arguments.sample_s, arguments.logdir
    if len(counts) < 2:
        raise BadArguments(f"--unrolls takes at least two numbers, got {counts[0]}")
    if 0 < 60 * minutes < 2 * sample:
        raise BadArguments(
            f"--minutes={minutes:g} is too short for three looks at the memory, {sample:g} s apart (--sample_s)"
        )
    if logdir and os.path.exists(logdir) and (not os.path.isdir(logdir) or os.listdir(logdir)):
        raise BadArguments(f"--logdir={logdir} is not an empty directory")
    gin_files = flags.gin_files(arguments)
    experiment = config_files.load(gin_files, arguments.gin_param)
    result = {"unrolls": by_unrolls(experiment, counts, arguments.repeats)}
    if minutes > 0:
        passed_on = [f"--gin_file={name}" for name in gin_files] + [f"--gin_param={b}" for b in arguments.gin_param]
        environments = experiment.actors.num_envs
        result["run"] = over_a_run(passed_on, environments, 60 * minutes, sample, arguments.warm_up_s, logdir)
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
        kept = {name: measured[0][name] for name in ("unrolls", "each_bytes", "store_bytes")}
        rows.append({**kept, **spreads([{"resident_bytes": entry["resident_bytes"]} for entry in measured])})
    fit = line_fit([row["unrolls"] for row in rows], [medians(row)["resident_bytes"] for row in rows])
    each = rows[0]["each_bytes"]
    return {"rows": rows, **fit, "each": each, "ratio": fit["slope"] / each}


def resident_with(experiment: Experiment, more: int) -> dict[str, float]:
    """A learner's acting half with slots for `more` unrolls besides those in progress, compiled and all slots written.

    Runs in a process of its own. Every slot is written: memory that never was isn't resident.
    """
    import_quietly("benchmarks.components")  # TensorFlow and all
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
    span = float(np.ptp(ys))
    residual = float(np.max(np.abs(ys - intercept - slope * xs))) / span if span > 0 else 0.0
    return {"slope": slope, "intercept": intercept, "residual": residual}


def over_a_run(
    product_arguments: Sequence[str],
    environments: int,
    seconds: float,
    sample: float,
    warm_up: float,
    logdir: str | None = None,
) -> dict[str, Any]:
    """Memory of `seed_rl train` from `warm_up` seconds after its steady state begins, a look every `sample` seconds.

    Args:
      product_arguments: its experiment.
      environments: of all actors.
      seconds: how long to look.
      sample: seconds.
      warm_up: seconds.
      logdir: is kept; by default one that goes away.

    Returns:
      samples: seconds and resident bytes of the learner and of all actors, at each look; learner and actors: see
      `drift`; checkpoints and metrics are written meanwhile as the configuration says.
    """
    with product("train", product_arguments, logdir=logdir) as run:
        run.wait_until(
            lambda rows: has_settled(rows, environments, warm_up), _START_SECONDS + warm_up, "a steady state"
        )
        began = time.monotonic()
        samples: list[dict[str, float]] = []
        actors = run.state().actors.processes
        while not samples or time.monotonic() - began <= seconds:
            state = run.state()
            if state.actors.processes != actors:
                raise MeasurementFailed(
                    f"{state.actors.processes} of {actors} actors are left: see to that before memory"
                )
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
      MeasurementFailed: fewer than three looks.
    """
    third = len(resident) // 3
    if third < 1:
        raise MeasurementFailed(
            f"there were {len(resident)} looks at the memory, it takes three: --minutes is too short"
        )
    first, last = float(np.mean(resident[:third])), float(np.mean(resident[-third:]))
    slope = line_fit(seconds, resident)["slope"]
    return {"first_third": first, "last_third": last, "growth": last / first - 1, "mb_per_hour": slope * 3600 / 1e6}


def table(result: dict[str, Any]) -> str:
    """For people."""
    kept = result["unrolls"]
    rows = [
        [f"{row['unrolls']:,}", number(row["store_bytes"] / 1e6), number(row["resident_bytes"] / 1e6)]
        for row in map(medians, kept["rows"])
    ]
    lines = [
        columns(["unrolls", "tensors\nMB", "resident\nMB"], rows),
        f"{kept['slope']:,.0f} resident bytes per unroll, whose tensors are {kept['each']:,}: ratio "
        f"{kept['ratio']:.3f}; besides {kept['intercept'] / 1e6:,.0f} MB",
        f"largest distance of a point from the line: {kept['residual']:.1%} of the range",
    ]
    if "run" in result:
        run = result["run"]
        rows = [
            [
                name,
                *(number(run[name][third] / 1e6) for third in ("first_third", "last_third")),
                f"{run[name]['growth']:.2%}",
                f"{run[name]['mb_per_hour']:,.1f}",
            ]
            for name in ("learner", "actors")
        ]
        heads = ["resident", "first third\nMB", "last third\nMB", "growth", "MB/h"]
        minutes, looks = run["samples"][-1]["seconds"] / 60, len(run["samples"])
        lines += ["", f"over {minutes:.1f} minutes of training, {looks} looks", columns(heads, rows)]
    return "\n".join(lines)
