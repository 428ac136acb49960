"""Steps a group of environments and inserts an extra output at the end of every truncated episode."""

from typing import Any

import numpy as np
from gymnasium.vector import VectorEnv

from seed_rl.envs import base
from seed_rl.envs.vector.final import final_numbers, final_observations, replaced, rows
from seed_rl.types import EnvOutput


class Steps:
    """Steps E environments with SAME_STEP autoreset.

    An environment whose episode is truncated produces two outputs in one step: first the last observation of the old
    episode, then, once that has been acted on, the first observation of the next episode. The second output covers only
    the truncated environments, and the others wait for it.
    """

    def __init__(self, env: VectorEnv):
        self._env = env
        self._nowhere = np.zeros(env.num_envs, bool)
        self._observation: Any = None
        """The newest observation of all environments, [E, ...]."""
        self._cut: np.ndarray | None = None
        """int [n]: the truncated environments, until the actions that answer their second output have arrived."""
        self._actions: np.ndarray | None = None
        """[E, ...]: the actions of the waiting environments, once the second output has been produced."""
        self.numbers: list[tuple[int, str, float]] = []
        """Numbers about the episodes that ended in the last output: index of the environment, name and value."""

    def reset(self, seed: int) -> EnvOutput:
        """Start a run; the fields of its first output are [E, ...]."""
        self._cut = self._actions = None
        self.numbers = []
        output = base.reset(self._env, seed)
        self._observation = output.observation
        return output

    def step(self, actions: np.ndarray) -> EnvOutput:
        """The next output, given one action for each environment in the previous one.

        Returns:
          Fields [E, ...], or [n, ...] for the n environments that had `last` in the previous output, in order; see
          `EnvOutput`. If an environment provides no last observation, the one before it is used instead.
        """
        if self._cut is not None and self._actions is None:
            self._actions, self.numbers = actions.copy(), []
            first, begins = rows(self._observation, self._cut), np.ones(len(self._cut), bool)
            return EnvOutput(np.zeros(len(begins), np.float32), begins, ~begins, first)
        if self._cut is not None and self._actions is not None:
            self._actions[self._cut] = actions
            actions = self._actions
            self._cut = self._actions = None
        before = self._observation
        self._observation, reward, terminated, truncated, info = self._env.step(actions)
        reward = base.as_float32(reward)
        self.numbers = final_numbers(info, terminated | truncated)
        if "ended" in info:  # from `wrappers.SameStep`, which outputs last observations itself
            return EnvOutput(reward, *base.ends_of(terminated, truncated, info), self._observation)
        truncated = truncated & ~terminated
        if not truncated.any():
            return EnvOutput(reward, terminated, self._nowhere, self._observation)
        self._cut = np.flatnonzero(truncated)
        final = final_observations(self._env, info, self._cut)
        final = rows(before, self._cut) if final is None else final
        return EnvOutput(reward, terminated, truncated, replaced(self._observation, self._cut, final))
