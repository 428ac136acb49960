"""The networks that the benchmarks of the act step and of the update measure: Pong's, from shipped experiments."""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Iterator

from benchmarks import flags
from seed_rl import config_files
from seed_rl.agents.config import DTYPES
from seed_rl.experiment import Experiment

NETWORKS = {
    "shallow": ("atari/vtrace", []),
    "shallow_lstm": ("atari/vtrace", ["VTrace.lstm_units = 256"]),
    "deep_lstm": ("atari/vtrace_deep", []),
    "r2d2": ("atari/r2d2", []),
}
"""gin file and bindings: Nature DQN's network, the same with LSTM 256, IMPALA's residual network with LSTM 256, and
R2D2's (shallow, LSTM 512, dueling heads of 512)."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """`--networks` and `--dtypes`."""
    parser.add_argument("--networks", type=flags.some_of(NETWORKS), default=",".join(NETWORKS), help="which to measure")
    parser.add_argument("--dtypes", type=flags.some_of(DTYPES), default=",".join(DTYPES), help="of their computation")


def chosen(arguments: argparse.Namespace) -> Iterator[tuple[str, str, Experiment]]:
    """Network, dtype and experiment of each combination that the flags of `add_arguments` name."""
    for network in arguments.networks:
        gin_file, bindings = NETWORKS[network]
        for dtype in arguments.dtypes:
            loaded = config_files.load([gin_file], bindings)
            agent = dataclasses.replace(loaded.agent, dtype=dtype)  # type: ignore[call-arg]  # all of these have one
            yield network, dtype, dataclasses.replace(loaded, agent=agent)
