"""What a prioritized replay costs, by its size: `python -m seed_rl.bench.replay`."""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

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
"""Small steps, so that the bookkeeping is what is measured and not the copying of frames."""

BATCH = 64


def measure(sequences: int, steps: int, rounds: int) -> dict[str, Any]:
    """One replay of `sequences` sequences of `steps` steps.

    Returns:
      milliseconds: medians over `rounds` rounds, each of which inserts 64 sequences and so evicts 64, draws 64, reads
        them out of the store and gives them new priorities; `round` is all of that.
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

    for _ in range(rounds):
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
        "milliseconds": {name: 1e3 * statistics.median(times) for name, times in seconds.items()},
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


def table(results: list[dict[str, Any]]) -> str:
    """For people."""
    sizes = [f"{result['sequences']:,}" for result in results]
    lines = [f"{'sequences':24}" + "".join(f"{size:>12}" for size in sizes) + f"{'ratio':>10}"]
    for unit, key, digits in (("ms", "milliseconds", 3), ("bytes", "bytes_per_sequence", 1)):
        for name in results[0][key]:
            values = [result[key][name] for result in results]
            numbers = "".join(f"{value:12,.{digits}f}" for value in values)
            lines.append(f"{f'{name}, {unit}':24}{numbers}{values[-1] / values[0]:10.2f}")
    return "\n".join(lines)


def main() -> int:
    """Measures, prints a table and, if asked to, writes JSON."""
    parser = argparse.ArgumentParser(
        description="Cost of a prioritized replay at a tenth of its size and at all of it."
    )
    parser.add_argument("--sequences", type=int, default=100_000, help="in the replay")
    parser.add_argument("--steps", type=int, default=120, help="per sequence")
    parser.add_argument("--rounds", type=int, default=1000, help="measured, of 64 sequences each")
    parser.add_argument("--json", help="where the results go")
    arguments = parser.parse_args()
    measure(BATCH, arguments.steps, rounds=1)  # what TensorFlow allocates once is not the replay's
    results = [
        measure(sequences, arguments.steps, arguments.rounds)
        for sequences in (arguments.sequences // 10, arguments.sequences)
    ]
    if arguments.json:
        hardware = f"{os.cpu_count()} cores, {platform.processor() or platform.machine()}"
        with open(arguments.json, "w", encoding="utf-8") as file:
            json.dump(
                {"batch": BATCH, "steps": arguments.steps, "sizes": results, "hardware": hardware}, file, indent=2
            )
            file.write("\n")
    print(table(results))
    return 0


if __name__ == "__main__":
    sys.exit(main())
