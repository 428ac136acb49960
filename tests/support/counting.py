"""An environment whose observations are counters, so that every boundary in the pipeline can be checked exactly."""

import dataclasses
from typing import ClassVar

import gin
import numpy as np
from gymnasium import spaces

from seed_rl.envs import registry
from seed_rl.envs.base import EnvConfig, UniformVectorEnv


@registry.register
@gin.configurable
@dataclasses.dataclass(frozen=True)
class Counting(EnvConfig):
    """Environment e has episodes of `shortest_episode` + e % 3 steps; the reward of a step is the action taken.

    Episodes 1, 3, ... (counted from 0) are truncated, the others terminated.
    """

    suite: ClassVar[str] = "counting"

    shortest_episode: int = 5

    def make(self, num_envs):
        return CountingVectorEnv(num_envs, self.shortest_episode)


class CountingVectorEnv(UniformVectorEnv):
    """Observations int32 [E, 4]: seed of the environment, episode, step in the episode, steps since the reset."""

    NUM_ACTIONS = 1000

    def __init__(self, num_envs, shortest_episode):
        observation_space = spaces.Box(0, np.iinfo(np.int32).max, (4,), np.int32)
        super().__init__(num_envs, observation_space, spaces.Discrete(self.NUM_ACTIONS))
        self._episode_length = shortest_episode + np.arange(num_envs) % 3
        self._counters = np.zeros((num_envs, 4), np.int32)

    def reset(self, *, seed=None, options=None):
        self._counters[:] = 0
        self._counters[:, 0] = (seed or 0) + np.arange(self.num_envs)
        return self._counters.copy(), {}

    def step(self, actions):
        self._counters[:, 2:] += 1
        ended = self._counters[:, 2] == self._episode_length
        info = {"final_obs": self._counters.copy()} if ended.any() else {}
        self._counters[ended, 1] += 1
        self._counters[ended, 2] = 0
        truncated = ended & (self._counters[:, 1] % 2 == 0)
        reward = np.asarray(actions, np.float64)
        return self._counters.copy(), reward, ended & ~truncated, truncated, info
