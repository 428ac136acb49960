"""An environment whose observations are counters, so that every boundary in the pipeline can be checked exactly."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

import gin
import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode

from seed_rl.envs.base import EnvConfig, spec_of
from seed_rl.envs.registry import register
from seed_rl.settings import check_at_least, check_types
from seed_rl.specs import EnvSpec


@register
@gin.configurable
@dataclasses.dataclass(frozen=True)
class Counting(EnvConfig):
    """Environment e has episodes of `shortest_episode` + e % 3 steps; the reward of a step is the action taken."""

    suite: ClassVar[str] = "counting"

    shortest_episode: int = 5

    def __post_init__(self):
        check_types(self)
        check_at_least(self, 1, "shortest_episode")

    @property
    def action_repeat(self) -> int:
        return 1

    def spec(self) -> EnvSpec:
        return spec_of(self.make(1))

    def make(self, num_envs: int) -> gymnasium.vector.VectorEnv:
        return CountingVectorEnv(num_envs, self.shortest_episode)


class CountingVectorEnv(gymnasium.vector.VectorEnv):
    """Observations int32 [E, 4]: seed of the environment, episode, step in the episode, steps since the reset."""

    NUM_ACTIONS = 1000

    def __init__(self, num_envs: int, shortest_episode: int):
        self.num_envs = num_envs
        self.metadata = {"autoreset_mode": AutoresetMode.SAME_STEP}
        self.single_observation_space = spaces.Box(0, np.iinfo(np.int32).max, (4,), np.int32)
        self.single_action_space = spaces.Discrete(self.NUM_ACTIONS)
        self.observation_space = gymnasium.vector.utils.batch_space(self.single_observation_space, num_envs)
        self.action_space = gymnasium.vector.utils.batch_space(self.single_action_space, num_envs)
        self._episode_length = shortest_episode + np.arange(num_envs) % 3
        self._counters = np.zeros((num_envs, 4), np.int32)

    def reset(
        self, *, seed: int | list[int] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Sets all counters to zero."""
        self._counters[:] = 0
        self._counters[:, 0] = (seed or 0) + np.arange(self.num_envs)
        return self._counters.copy(), {}

    def step(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Counts."""
        self._counters[:, 2:] += 1
        terminated = self._counters[:, 2] == self._episode_length
        self._counters[terminated, 1] += 1
        self._counters[terminated, 2] = 0
        reward = np.asarray(actions, np.float64)
        return self._counters.copy(), reward, terminated, np.zeros(self.num_envs, bool), {}
