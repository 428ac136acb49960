"""Environments that fail on purpose, for tests of the processes that run them."""

import dataclasses
import os
import threading
import time

import gin
import gymnasium
import numpy as np
from gymnasium import spaces

from seed_rl.envs import registry
from seed_rl.envs.catch import Catch, CatchVectorEnv

GO_ON, EXIT = range(2)
"""The actions."""


class FailingEnv(gymnasium.Env):
    """Observations int64 [2]: process id, seed of the last reset (-1: none). The reward is always 1."""

    observation_space = spaces.Box(-1, 2**62, (2,), np.int64)
    action_space = spaces.Discrete(2)

    def __init__(self, hangs_at_close=False, leaves=None):
        """`hangs_at_close`: `close` never returns. `leaves`: a folder where it leaves a file named by its process."""
        self._hangs_at_close, self._leaves = hangs_at_close, leaves

    def reset(self, *, seed=None, options=None):
        self._seen = np.array([os.getpid(), -1 if seed is None else seed])
        return self._seen, {}

    def step(self, action):
        if action == EXIT:
            os._exit(7)
        return self._seen, 1.0, False, False, {}

    def close(self):
        if self._hangs_at_close:
            threading.Event().wait()
        if self._leaves:
            time.sleep(0.1)
            (self._leaves / str(os.getpid())).touch()


@registry.register
@gin.configurable
@dataclasses.dataclass(frozen=True)
class Failing(Catch):
    """A suite of environments that fail in their first step, so in an actor: a learner only reads their spec."""

    suite = "failing"

    def make(self, num_envs):
        return _FailingVectorEnv(num_envs, self.rows, self.columns)


class _FailingVectorEnv(CatchVectorEnv):
    def step(self, actions):
        raise OSError("the game crashed")
