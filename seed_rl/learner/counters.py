"""How far a run is."""

from __future__ import annotations

import dataclasses

import numpy as np


@dataclasses.dataclass
class Counters:
    """How far a run is; saved with its checkpoints."""

    learner_updates: int = 0
    agent_steps: int = 0
    """Agent steps that have gone into the learner, each counted once."""
    env_frames: int = 0
    """The same in environment frames: agent steps times the action repeat."""
    seconds: float = 0.0
    """Wall-clock time spent training, over all starts of the run; without start-up, and without what a kill lost."""
    discarded_unrolls: int = 0
    """Unrolls that were in progress when their environments' actor went away, in earlier starts of the run."""
    unrecorded_steps: int = 0
    """Agent steps played before an environment's first unroll began, in earlier starts of the run."""

    def to_array(self) -> np.ndarray:
        """float64 [number of counters]."""
        return np.array(dataclasses.astuple(self), np.float64)

    @classmethod
    def from_array(cls, array: np.ndarray) -> Counters:
        """Of `to_array`."""
        kinds = [type(value) for value in dataclasses.astuple(cls())]
        return cls(*(kind(value) for kind, value in zip(kinds, array, strict=True)))
