"""The act step by network, dtype and batch, compared with its network alone.

The act step is everything that happens to a batch on the inference thread: copying it into place, gathering states, the
network, sampling, writing the unrolls, scattering states and reading the actions back. The network alone is `Agent.act`
with inputs already on the device, as a plain graph and compiled by XLA; the act step is compared with the faster of the
two. They take turns, so that a drifting machine affects all equally. The bookkeeping of unrolls, which also runs on
that thread, has a separate column.
"""

import argparse
import dataclasses
import itertools
import statistics
from typing import Any

from benchmarks import flags
from benchmarks.experiments import Recipe
from benchmarks.parts import ActStepPart, milliseconds
from benchmarks.report import median, ratio, spread
from seed_rl.networks.config import DTYPES
from seed_rl.reporting.text import columns

NETWORKS = {
    "shallow": Recipe("atari/vtrace"),
    "shallow_lstm": Recipe("atari/vtrace", ("VTrace.core = 'lstm'",)),
    "deep_lstm": Recipe("atari/vtrace_deep"),
    "r2d2": Recipe("atari/r2d2", ("R2D2.unroll_length = 20", "R2D2.burn_in = 20")),
}
"""Networks of Nature DQN, Nature DQN with LSTM 256, IMPALA (residual, LSTM 256), and R2D2 (shallow, LSTM 512,
dueling heads of 512). Unrolls have 20 steps."""
QUICK = {"networks": "shallow", "dtypes": "float32", "batches": "2", "seconds": 0.1, "repeats": 2}

TIMES = ("act", "graph", "xla", "bookkeeping")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    for flag, known in {"networks": NETWORKS, "dtypes": DTYPES}.items():
        parser.add_argument(f"--{flag}", type=flags.some_of(known), default=",".join(known), help=f"{flag} to measure")
    parser.add_argument("--batches", type=flags.counts, default="1,32,256", help="environments per act step")
    flags.add_timing(parser, 0.6)


def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    cells = []
    for network, dtype in itertools.product(arguments.networks, arguments.dtypes):
        loaded = NETWORKS[network].load()
        config = dataclasses.replace(loaded.agent, dtype=dtype)  # type: ignore[call-arg]  # these agents have one
        experiment = dataclasses.replace(loaded, agent=config)
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
