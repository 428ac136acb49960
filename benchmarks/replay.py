"""What a prioritized replay costs by its size, in milliseconds and in bytes.

A round inserts 64 sequences, and so evicts 64, draws 64, reads them out of the store and gives them new priorities.
Steps have a few bytes, so that the bookkeeping is what is measured and not the copying of frames: a million sequences
of 20 steps take 0.4 GB.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from benchmarks import flags
from benchmarks.text import columns, number
from benchmarks.timing import spread
from seed_rl.buffers.placement import sequence_nbytes
from seed_rl.buffers.prioritized_replay import PrioritizedReplay
from seed_rl.buffers.slots import SlotPool
from seed_rl.buffers.unroll_store import StepWrites, UnrollStore
from seed_rl.types import EnvOutput, Unroll

STEP_SPEC = Unroll(
    initial_state=tf.TensorSpec([16], tf.float32),
    prev_action=tf.TensorSpec([], tf.int32),
    env_output=EnvOutput(tf.TensorSpec([], tf.float32), tf.TensorSpec([], tf.bool), tf.TensorSpec([4], tf.uint8)),
    action=tf.TensorSpec([], tf.int32),
    behaviour=(),
)

BATCH = 64

QUICK = {"sequences": "100,1000", "steps": 2, "rounds": 10}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Its flags."""
    parser.add_argument("--sequences", type=flags.counts, default="1000,10000,100000,1000000", help="in the replay")
    parser.add_argument("--steps", type=flags.count, default=20, help="per sequence")
    parser.add_argument("--rounds", type=flags.count, default=1000, help="in each measurement")
    parser.add_argument("--repeats", type=flags.count, default=3, help="measurements; the median counts")


def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    """Costs at each size."""
    measure_size(BATCH, arguments.steps, rounds=1, repeats=1)  # what TensorFlow allocates once is not the replay's
    return {
        "batch": BATCH,
        "steps": arguments.steps,
        "sizes": [
            measure_size(sequences, arguments.steps, arguments.rounds, arguments.repeats)
            for sequences in arguments.sequences
        ],
    }


def measure_size(sequences: int, steps: int, rounds: int, repeats: int) -> dict[str, Any]:
    """One replay of `sequences` sequences of `steps` steps.

    Returns:
      milliseconds: `spread`s of `repeats` means over `rounds` rounds each; `round` is all of a round.
      bytes_per_sequence: of `specs` (the sum of its tensors), `store` (what the store counts) and `process` (how far
        the resident memory grew while the store was made and filled) per sequence; `process_peak` likewise.
    """
    before = _resident_bytes("VmRSS")
    _reset_peak()
    store = UnrollStore(STEP_SPEC, steps, sequences + BATCH)
    _fill(store)
    grown, grown_at_peak = _resident_bytes("VmRSS") - before, _resident_bytes("VmHWM") - before

    rng = np.random.default_rng(0)
    pool = SlotPool(store.num_slots)
    replay = PrioritizedReplay(sequences, store.num_slots, seed=0)
    replay.insert(pool.acquire(sequences), rng.exponential(size=sequences))
    seconds: dict[str, list[float]] = {name: [] for name in ("insert", "sample", "read", "update", "round")}

    def timed(name: str, work: Callable[..., Any], *arguments: Any) -> Any:
        started = time.perf_counter()
        result = work(*arguments)
        seconds[name].append(time.perf_counter() - started)
        return result

    def read(slots: np.ndarray) -> None:
        store.read(tf.constant(slots)).env_output.reward.numpy()  # waits for the device

    for _ in range(rounds * repeats):
        inserted, priorities = pool.acquire(BATCH), rng.exponential(size=(2, BATCH))
        started = time.perf_counter()
        pool.release(timed("insert", replay.insert, inserted, priorities[0]))
        slots = timed("sample", replay.sample, BATCH).slots
        timed("read", read, slots)
        timed("update", replay.update, slots, priorities[1])
        seconds["round"].append(time.perf_counter() - started)

    held = store.num_slots + 1
    return {
        "sequences": sequences,
        "milliseconds": {
            name: spread((1e3 * np.reshape(times, [repeats, rounds]).mean(axis=1)).tolist())
            for name, times in seconds.items()
        },
        "bytes_per_sequence": {
            "specs": sequence_nbytes(STEP_SPEC, steps),
            "store": store.nbytes / held,
            "process": grown / held,
            "process_peak": grown_at_peak / held,
        },
    }


def _fill(store: UnrollStore) -> None:
    """Writes every byte: memory that was never written is neither resident nor slow to read."""
    at_a_time = 1024  # few enough for their temporary tensors not to be seen beside the store
    write = tf.function(store.write)
    step = tf.nest.map_structure(lambda spec: tf.ones([at_a_time, *spec.shape], spec.dtype), STEP_SPEC)
    for start in range(0, store.num_slots, at_a_time):
        slots = tf.minimum(tf.range(start, start + at_a_time), store.num_slots)
        for position in range(store.length):
            write(StepWrites(slots[None], tf.fill([1, at_a_time], position), slots), step)


def _resident_bytes(field: str) -> int:
    """Resident memory of this process: now ("VmRSS") or the most since `_reset_peak` ("VmHWM")."""
    with open("/proc/self/status", encoding="utf-8") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith(f"{field}:"))


def _reset_peak() -> None:
    with open("/proc/self/clear_refs", "w", encoding="utf-8") as file:
        file.write("5")


def table(result: dict[str, Any]) -> str:
    """For people; the last column is the largest replay's cost over the smallest one's."""
    sizes = result["sizes"]
    values = [
        (f"{name}, ms", [size["milliseconds"][name]["median"] for size in sizes]) for name in sizes[0]["milliseconds"]
    ]
    values += [
        (f"bytes per sequence, {name}", [size["bytes_per_sequence"][name] for size in sizes])
        for name in sizes[0]["bytes_per_sequence"]
    ]
    # The process need not have grown for a small replay, where there was room from before.
    rows = [[name, *map(number, row), f"{row[-1] / row[0]:.2f}" if row[0] > 0 else "-"] for name, row in values]
    return columns(["sequences", *(f"{size['sequences']:,}" for size in sizes), "last /\nfirst"], rows)
