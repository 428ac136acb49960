"""Experiments measured by benchmarks: Pong, from shipped gin files."""

from typing import NamedTuple

from seed_rl.experiment import Experiment, config_files


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
