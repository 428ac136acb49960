"""Experiments measured by benchmarks: Pong, from shipped gin files."""

import argparse
import dataclasses
from collections.abc import Iterator
from typing import NamedTuple

from benchmarks import flags
from seed_rl.experiment import Experiment, config_files
from seed_rl.networks.config import DTYPES


class Recipe(NamedTuple):
    """A gin file, and bindings that override it."""

    gin_file: str
    bindings: tuple[str, ...] = ()

    def load(self) -> Experiment:
        """Load the experiment.

        Raises:
          ConfigError: the file or a setting does not exist.
        """
        return config_files.load([self.gin_file], list(self.bindings))

    def flags(self) -> list[str]:
        """Return the flags of `seed_rl train` for the experiment."""
        return [f"--gin_file={self.gin_file}", *(f"--gin_param={binding}" for binding in self.bindings)]


NETWORKS = {
    "shallow": Recipe("atari/vtrace"),
    "shallow_lstm": Recipe("atari/vtrace", ("VTrace.core = 'lstm'",)),
    "deep_lstm": Recipe("atari/vtrace_deep"),
    "r2d2": Recipe("atari/r2d2", ("R2D2.unroll_length = 20", "R2D2.burn_in = 20")),
}
"""Networks of Nature DQN, Nature DQN with LSTM 256, IMPALA (residual, LSTM 256), and R2D2 (shallow, LSTM 512,
dueling heads of 512). Unrolls have 20 steps."""


def add_networks(parser: argparse.ArgumentParser) -> None:
    for flag, known in {"networks": NETWORKS, "dtypes": DTYPES}.items():
        parser.add_argument(f"--{flag}", type=flags.some_of(known), default=",".join(known), help=f"{flag} to measure")


def networks(arguments: argparse.Namespace) -> Iterator[tuple[str, str, Experiment]]:
    """Yield network, dtype and experiment for each combination in the flags of `add_networks`."""
    for network in arguments.networks:
        for dtype in arguments.dtypes:
            loaded = NETWORKS[network].load()
            agent = dataclasses.replace(loaded.agent, dtype=dtype)  # type: ignore[call-arg]  # these agents have one
            yield network, dtype, dataclasses.replace(loaded, agent=agent)


_PONG = ("Experiment.batch_size = 32", "Actors.groups_per_actor = 4", "VTrace.dtype = 'float32'")
_LSTM = (*_PONG, "VTrace.core = 'lstm'", "VTrace.previous_step_inputs = True")
_DEEP = (*_LSTM, "VTrace.torso = 'deep'")
_BFLOAT16 = "VTrace.dtype = 'mixed_bfloat16'"
_R2D2 = (
    "Actors.groups_per_actor = 4",
    "R2D2.unroll_length = 40",
    "R2D2.burn_in = 20",
    "R2D2.core_units = 512",
    "R2D2.head_hidden = 512",
    "Replay.capacity = 4000",  # fits twice: one for the run, one for the measurement of its components
    "Replay.min_size = 500",
)
PRESETS = {
    "vtrace": Recipe("atari/vtrace_pong", _PONG),
    "vtrace_lstm": Recipe("atari/vtrace_pong", _LSTM),
    "vtrace_lstm_bf16": Recipe("atari/vtrace_pong", (*_LSTM, _BFLOAT16)),
    "vtrace_deep": Recipe("atari/vtrace_pong", _DEEP),
    "vtrace_deep_bf16": Recipe("atari/vtrace_pong", (*_DEEP, _BFLOAT16)),
    "r2d2": Recipe("atari/r2d2_pong", _R2D2),
    "catch": Recipe("catch/vtrace"),
}
"""Runs of Pong, named after agent, network and dtype, with batches and numbers of environments tuned for two cores; and
Catch, for smoke tests."""
