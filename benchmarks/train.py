"""The update by network, dtype and batch: forward, backward and the optimizer, and its share of the peak FLOP/s.

Unrolls of random frames are already on the device. FLOPs count the network's convolutions and matrix products, times 3
for steps with gradients (the backward pass takes two products for each one of the forward pass), and times 1 for
others: R2D2's burn-in and target network. The peak is the rate of a product of two large matrices of the same dtype,
measured alternately with the update.
"""

import argparse
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from benchmarks import experiments, flags
from benchmarks.flops import update_flops
from benchmarks.parts import UpdatePart, num_weights
from benchmarks.report import columns, median, number
from benchmarks.timing import milliseconds, ratio, spread

QUICK = {"networks": "shallow", "dtypes": "float32", "batches": "1", "matrix_size": 128, "seconds": 0.1, "repeats": 2}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of this benchmark."""
    experiments.add_networks(parser)
    parser.add_argument("--batches", type=flags.counts, default="8,32", help="unrolls per update")
    parser.add_argument("--matrix_size", type=flags.count, default=2048, help="rows of the matrices for the peak")
    flags.add_timing(parser, 1.5)


def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    """Measure update rates for each batch size and network."""
    cells = []
    for network, dtype, experiment in experiments.networks(arguments):
        agent = experiment.build_agent()
        flops = update_flops(experiment, agent)
        product = _product("bfloat16" if dtype == "mixed_bfloat16" else "float32", arguments.matrix_size)
        for batch in arguments.batches:
            works = {"update": UpdatePart(experiment, agent, batch).update, "product": product}
            times = milliseconds(works, arguments.seconds, arguments.repeats)
            achieved = [1e3 * batch * flops / value for value in times["update"]]
            peak = [2e3 * arguments.matrix_size**3 / value for value in times["product"]]
            cells.append(
                {
                    "network": network,
                    "dtype": dtype,
                    "batch": batch,
                    "weights": num_weights(agent),
                    "length": agent.length,
                    "milliseconds": spread(times["update"]),
                    "unrolls": spread([1e3 * batch / value for value in times["update"]]),
                    "agent_steps": spread([1e3 * batch * agent.unroll_length / value for value in times["update"]]),
                    "achieved_flops": spread(achieved),
                    "peak_flops": spread(peak),
                    "utilisation": ratio(achieved, peak),
                }
            )
    return {"updates": cells}


def _product(dtype: str, size: int) -> Callable[[], Any]:
    """Return a function that multiplies two square matrices: 2 * size^3 operations."""
    matrix = tf.random.stateless_uniform([size, size], [0, 0], dtype=dtype)
    product = tf.function(tf.matmul, autograph=False)
    return lambda: product(matrix, matrix)[0, 0].numpy()


def table(result: dict[str, Any]) -> str:
    """Format rates by network, dtype and batch."""
    heads = ["network", "dtype", "batch", "update\nms", "unrolls/s", "agent\nsteps/s"]
    rows = [
        [
            cell["network"],
            cell["dtype"],
            str(cell["batch"]),
            *(median(cell[name]) for name in ("milliseconds", "unrolls", "agent_steps")),
            *(number(cell[name]["median"] / 1e9) for name in ("achieved_flops", "peak_flops")),
            f"{cell['utilisation']['median']:.2f}",
        ]
        for cell in result["updates"]
    ]
    return columns([*heads, "achieved\nGFLOP/s", "peak\nGFLOP/s", "share"], rows)
