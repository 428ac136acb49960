"""The act step by network, dtype and batch, compared with its network alone.

The act step is everything that happens to a batch on the inference thread: copying it into place, gathering states, the
network, sampling, writing the unrolls, scattering states and reading the actions back. The network alone is `Agent.act`
with inputs already on the device, as a plain graph and compiled by XLA; the act step is compared with the faster of the
two. They take turns, so that a drifting machine affects all equally. The bookkeeping of unrolls, which also runs on
that thread, has a separate column.
"""

import argparse
import statistics
from typing import Any

from benchmarks import experiments, flags
from benchmarks.parts import ActStepPart, milliseconds
from benchmarks.report import median, ratio, spread
from seed_rl.reporting.text import columns

QUICK = {"networks": "shallow", "dtypes": "float32", "batches": "2", "seconds": 0.1, "repeats": 2}

TIMES = ("act", "graph", "xla", "bookkeeping")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    experiments.add_networks(parser)
    parser.add_argument("--batches", type=flags.counts, default="1,32,256", help="environments per act step")
    flags.add_timing(parser, 0.6)


def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    cells = []
    for network, dtype, experiment in experiments.networks(arguments):
        agent = experiment.build_agent()
        for batch in arguments.batches:
            part = ActStepPart(experiment, agent, batch)
            works = (part.act, part.network_alone(jit_compile=False), part.network_alone(jit_compile=True))
            named = dict(zip(TIMES, (*works, part.advance), strict=True))
            times = milliseconds(named, arguments.seconds, arguments.repeats)
            alone = min(times["graph"], times["xla"], key=statistics.median)
            cell = {
                "milliseconds": {name: spread(values) for name, values in times.items()},
                "ratio": ratio(times["act"], alone),
                "agent_steps": spread([1e3 * batch / value for value in times["act"]]),
            }
            cells.append({"network": network, "dtype": dtype, "batch": batch, **cell})
    return {"act": cells}


def table(result: dict[str, Any]) -> str:
    heads = ["network", "dtype", "batch", "act step\nms", "network\ngraph, ms", "network\nXLA, ms"]
    rows = []
    for cell in result["act"]:
        times = [median(cell["milliseconds"][name]) for name in TIMES]
        measured = [*times, f"{cell['ratio']['median']:.2f}", median(cell["agent_steps"])]
        rows.append([cell["network"], cell["dtype"], str(cell["batch"]), *measured])
    return columns([*heads, "book-\nkeeping, ms", "act /\nnetwork", "agent\nsteps/s"], rows)
