"""The prioritized replay by size, in milliseconds per operation.

A round inserts 64 sequences (evicting 64), draws 64, reads them out of the store and updates their priorities. Steps
have a few bytes, so that bookkeeping dominates instead of copying frames: a million sequences of 20 steps take 0.4 GB.
"""

import argparse
import time
from typing import Any

import numpy as np

from benchmarks import flags
from benchmarks.parts import ReplayPart
from benchmarks.report import columns, number
from benchmarks.timing import spread

BATCH = 64
OPERATIONS = ("insert", "sample", "read", "update")

QUICK = {"sequences": "1000", "steps": 2, "rounds": 10, "repeats": 2}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of this benchmark."""
    parser.add_argument(
        "--sequences", type=flags.counts, default="1000,10000,100000,1000000", help="sequences in the replay"
    )
    parser.add_argument("--steps", type=flags.count, default=20, help="steps per sequence")
    parser.add_argument("--rounds", type=flags.count, default=1000, help="rounds per measurement")
    parser.add_argument("--repeats", type=flags.count, default=3, help="measurements; the table shows the median")


def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    """Measure the costs at each size."""
    sizes = [_size(sequences, arguments) for sequences in arguments.sequences]
    return {"batch": BATCH, "steps": arguments.steps, "sizes": sizes}


def _size(sequences: int, arguments: argparse.Namespace) -> dict[str, Any]:
    """Compute spreads of the mean over the rounds of each repeat; `round` is the sum of all operations."""
    part = ReplayPart(sequences, arguments.steps, BATCH)
    seconds = np.zeros([arguments.repeats, arguments.rounds, len(OPERATIONS)])
    for repeat in range(-1, arguments.repeats):  # the first round is not counted
        for turn in range(arguments.rounds if repeat >= 0 else 1):
            for column, name in enumerate(OPERATIONS):
                started = time.perf_counter()
                getattr(part, name)()
                seconds[repeat, turn, column] = time.perf_counter() - started
    means = 1e3 * seconds.mean(axis=1)
    times = {name: means[:, column].tolist() for column, name in enumerate(OPERATIONS)}
    times["round"] = means.sum(axis=1).tolist()
    return {"sequences": sequences, "milliseconds": {name: spread(values) for name, values in times.items()}}


def table(result: dict[str, Any]) -> str:
    """Format milliseconds by size; the last column is the cost at the largest size divided by the smallest's."""
    sizes = result["sizes"]
    rows = []
    for name in sizes[0]["milliseconds"]:
        row = [size["milliseconds"][name]["median"] for size in sizes]
        rows.append([f"{name}, ms", *map(number, row), f"{row[-1] / row[0]:.2f}"])
    return columns(["sequences", *(f"{size['sequences']:,}" for size in sizes), "last /\nfirst"], rows)
