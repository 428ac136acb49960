"""The outputs of a group of environments, in which truncated episodes have a step more."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium.vector import VectorEnv

from seed_rl.envs import base
from seed_rl.envs.final import final_observations, replaced, rows
from seed_rl.types import EnvOutput


class Steps:
    """Steps E environments with SAME_STEP autoreset.

    An environment whose episode is truncated gives two outputs for one step: the first has the last observation of the
    episode, and the second, which comes when that has been acted on, the first observation of the next episode. Until
    then the others wait: the second output is of the truncated environments alone.
    """

    def __init__(self, env: VectorEnv):
        self._env = env
        self._nowhere = np.zeros(env.num_envs, bool)
        self._observation: Any = None
        """The newest of all environments, [E, ...]."""
        self._cut: np.ndarray | None = None
        """int [n]: the environments that have their second output to come, or whose actions are awaited after it."""
        self._actions: np.ndarray | None = None
        """[E, ...]: of those that wait, while the actions of the others are awaited."""

    def reset(self, seed: int) -> EnvOutput:
        """Begins a run; the fields of its first output are [E, ...]."""
        self._cut = self._actions = None
        output = base.reset(self._env, seed)
        self._observation = output.observation
        return output

    def step(self, actions: np.ndarray) -> EnvOutput:
        """The next output.

        Args:
          actions: for the environments of the last output.

        Returns:
          Fields [E, ...], or [n, ...] of the n environments where the last output, of all, has `last`, in order; see
          `EnvOutput`. An environment that gives no last observation is taken to be where it was before.
        """
        if self._cut is not None and self._actions is None:
            self._actions = actions.copy()
            first, begins = rows(self._observation, self._cut), np.ones(len(self._cut), bool)
            return EnvOutput(np.zeros(len(begins), np.float32), begins, ~begins, first)
        if self._cut is not None and self._actions is not None:
            self._actions[self._cut] = actions
            actions = self._actions
            self._cut = self._actions = None
        before = self._observation
        self._observation, reward, terminated, truncated, info = self._env.step(actions)
        reward = np.asarray(reward, np.float32)
        if (ended := info.get("ended")) is not None:  # `wrappers.SameStep`, whose environments show their last states
            return EnvOutput(reward, terminated | truncated | ended[0], ended[0] | ended[1], self._observation)
        truncated = truncated & ~terminated
        if not truncated.any():
            return EnvOutput(reward, terminated, self._nowhere, self._observation)
        self._cut = np.flatnonzero(truncated)
        final = final_observations(self._env, info, self._cut)
        final = rows(before, self._cut) if final is None else final
        return EnvOutput(reward, terminated, truncated, replaced(self._observation, self._cut, final))
