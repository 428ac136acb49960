"""Memory: a cue is shown once and must be recalled after it has disappeared."""

import dataclasses
from typing import Annotated, Any, ClassVar

import gin
import gymnasium
import numpy as np
from gymnasium import spaces

from seed_rl.envs.base import EnvConfig, UniformVectorEnv, spec_of
from seed_rl.settings import Count, Within
from seed_rl.specs import EnvSpec


@gin.configurable
@dataclasses.dataclass(frozen=True)
class Memory(EnvConfig):
    """Memory: the return is 1 for naming the cue and 0 otherwise, after an episode of `delay` + 2 steps.

    The cue is visible only before the first action. After `delay` blank steps, a light asks for the last action, which
    is the only one that counts. A policy without memory has a mean return of 1 / `num_cues`.
    """

    suite: ClassVar[str] = "memory"

    num_cues: Annotated[int, Within(2)] = 4
    """Number of cues and of actions."""
    delay: Count = 10
    """Blank steps between the cue and the light."""

    def make(self, num_envs: int) -> gymnasium.vector.VectorEnv:
        return MemoryVectorEnv(num_envs, self.num_cues, self.delay)

    def spec(self) -> EnvSpec:
        return spec_of(self.make(1))


class MemoryVectorEnv(UniformVectorEnv):
    """Observations are uint8 [E, 1, num_cues + 1, 1], 255 at the cue or the light (the last); actions are cues."""

    def __init__(self, num_envs: int, num_cues: int, delay: int):
        super().__init__(num_envs, spaces.Box(0, 255, (1, num_cues + 1, 1), np.uint8), spaces.Discrete(num_cues))
        self._num_cues, self._last = num_cues, delay + 1
        self._time, self._cue = np.zeros((2, num_envs), np.int64)

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        self._begin(np.ones(self.num_envs, bool))
        return self._render(), {}

    def step(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Step all environments; where the light is on, taking the cued action has a reward of 1."""
        terminated = self._time == self._last
        reward = np.where(terminated & (self._cue == np.asarray(actions)), 1.0, 0.0)
        self._time += 1
        self._begin(terminated)
        return self._render(), reward, terminated, np.zeros(self.num_envs, bool), {}

    def _begin(self, which: np.ndarray) -> None:
        self._time[which] = 0
        self._cue[which] = self.np_random.integers(self._num_cues, size=np.count_nonzero(which))

    def _render(self) -> np.ndarray:
        pixels = np.zeros((self.num_envs, 1, self._num_cues + 1, 1), np.uint8)
        envs = np.arange(self.num_envs)
        pixels[envs, 0, self._cue, 0] = np.where(self._time == 0, 255, 0)
        pixels[envs, 0, -1, 0] = np.where(self._time == self._last, 255, 0)
        return pixels
