"""Memory: a cue is shown once, and asked for when nothing of it is left to see."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

import gin
import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode

from seed_rl.envs.base import EnvConfig, spec_of
from seed_rl.settings import check_at_least, check_types
from seed_rl.specs import EnvSpec


@gin.configurable
@dataclasses.dataclass(frozen=True)
class Memory(EnvConfig):
    """Return 1 for naming the cue and 0 for another, at the end of an episode of `delay` + 2 steps.

    The cue is seen before the first action only, then nothing before the next `delay` actions, then a light before the
    last, the one that counts. Who acts on the current observation alone has 1 / `num_cues` on average.
    """

    suite: ClassVar[str] = "memory"

    num_cues: int = 4
    """Cues, and actions."""

    delay: int = 10
    """Steps without anything to see between the cue and the question."""

    def __post_init__(self):
        check_types(self)
        check_at_least(self, 2, "num_cues")
        check_at_least(self, 1, "delay")

    @property
    def action_repeat(self) -> int:
        return 1

    def spec(self) -> EnvSpec:
        return spec_of(self.make(1))

    def make(self, num_envs: int) -> gymnasium.vector.VectorEnv:
        return MemoryVectorEnv(num_envs, self.num_cues, self.delay)


class MemoryVectorEnv(gymnasium.vector.VectorEnv):
    """Observations uint8 [E, 1, num_cues + 1, 1], 255 at the cue or, last, at the light; actions are the cues."""

    def __init__(self, num_envs: int, num_cues: int, delay: int):
        self.num_envs = num_envs
        self.metadata = {"autoreset_mode": AutoresetMode.SAME_STEP}
        self.single_observation_space = spaces.Box(0, 255, (1, num_cues + 1, 1), np.uint8)
        self.single_action_space = spaces.Discrete(num_cues)
        self.observation_space = gymnasium.vector.utils.batch_space(self.single_observation_space, num_envs)
        self.action_space = gymnasium.vector.utils.batch_space(self.single_action_space, num_envs)
        self._num_cues, self._last = num_cues, delay + 1
        self._rng = np.random.default_rng()
        self._time = np.zeros(num_envs, np.int64)
        self._cue = np.zeros(num_envs, np.int64)

    def reset(
        self, *, seed: int | list[int] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Starts every episode anew."""
        if seed is not None:
            self._rng = np.random.default_rng(seed)
        self._begin(np.ones(self.num_envs, bool))
        return self._render(), {}

    def step(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Lets time pass; where the light was on, compares `actions` with the cues."""
        terminated = self._time == self._last
        reward = np.where(terminated & (self._cue == np.asarray(actions)), 1.0, 0.0)
        self._time += 1
        self._begin(terminated)
        return self._render(), reward, terminated, np.zeros(self.num_envs, bool), {}

    def _begin(self, which: np.ndarray) -> None:
        self._time[which] = 0
        self._cue[which] = self._rng.integers(self._num_cues, size=np.count_nonzero(which))

    def _render(self) -> np.ndarray:
        pixels = np.zeros((self.num_envs, 1, self._num_cues + 1, 1), np.uint8)
        envs = np.arange(self.num_envs)
        pixels[envs, 0, self._cue, 0] = np.where(self._time == 0, 255, 0)
        pixels[envs, 0, -1, 0] = np.where(self._time == self._last, 255, 0)
        return pixels
