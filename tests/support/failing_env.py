"""Environments that fail on purpose, for tests of the processes that run them."""

from __future__ import annotations

import dataclasses
import os
import threading
from typing import Any

import gin
import gymnasium
import numpy as np
from gymnasium import spaces

from seed_rl.envs import registry
from seed_rl.envs.catch import Catch, CatchVectorEnv

GO_ON, EXIT = range(2)
"""The actions."""


class FailingEnv(gymnasium.Env):
    """Observations int64 [3]: process id, seed of the last reset (-1: none), steps since then."""

    observation_space = spaces.Box(-1, 2**62, (3,), np.int64)
    action_space = spaces.Discrete(2)

    def __init__(self, hangs_at_close: bool = False):
        """`hangs_at_close`: `close` never returns."""
        self._hangs_at_close = hangs_at_close
        self._seed, self._steps = -1, 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        self._seed, self._steps = -1 if seed is None else seed, 0
        return self._observation(), {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """The reward is the number of the step."""
        self._steps += 1
        if action == EXIT:
            os.write(2, b"***\nERROR: there is no map\n***\n")
            os._exit(7)
        return self._observation(), float(self._steps), False, False, {"steps": self._steps}

    def close(self) -> None:
        if self._hangs_at_close:
            threading.Event().wait()

    def _observation(self) -> np.ndarray:
        return np.array([os.getpid(), self._seed, self._steps])


@registry.register
@gin.configurable
@dataclasses.dataclass(frozen=True)
class Failing(Catch):
    """A suite of environments that fail in their first step, so in an actor: a learner only reads their spec."""

    suite = "failing"

    def make(self, num_envs: int) -> gymnasium.vector.VectorEnv:
        return _FailingVectorEnv(num_envs, self.rows, self.columns)


class _FailingVectorEnv(CatchVectorEnv):
    def step(self, actions: np.ndarray) -> Any:
        raise OSError("the game crashed")
