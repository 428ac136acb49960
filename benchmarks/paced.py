"""Environments that take the time of real ones, and no CPU: those of an actor on a machine of its own."""

from __future__ import annotations

import dataclasses
import functools
import heapq
import threading
import time
from typing import Any, ClassVar

import gin
import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode

from seed_rl.envs import registry
from seed_rl.envs.base import EnvConfig, spec_of
from seed_rl.settings import check_at_least, check_types
from seed_rl.specs import EnvSpec

_FRAMES = 4


@registry.register
@gin.configurable
@dataclasses.dataclass(frozen=True)
class Paced(EnvConfig):
    """Random frames of 84 x 84 bytes, and six actions that do nothing; episodes don't end."""

    suite: ClassVar[str] = "paced"

    step_ms: float = 0.3
    """Of one environment on one core."""
    cores: int = 1
    """Of an actor process: as many groups step at a time, and others wait for their turn."""

    def __post_init__(self):
        check_types(self)
        check_at_least(self, 0, "step_ms")
        check_at_least(self, 1, "cores")

    @property
    def action_repeat(self) -> int:
        return 4

    def spec(self) -> EnvSpec:
        return spec_of(self.make(1))

    def make(self, num_envs: int) -> gymnasium.vector.VectorEnv:
        return _PacedVectorEnv(num_envs, self.step_ms / 1000, _cores_of_this_process(self.cores))


class Cores:
    """The time of some cores, handed out in the order in which it is asked for."""

    def __init__(self, count: int):
        self._free_at = [0.0] * count
        self._lock = threading.Lock()

    def take(self, seconds: float, now: float) -> float:
        """When work that takes so long is done; a caller that wakes up late delays no other."""
        with self._lock:
            done = max(now, self._free_at[0]) + seconds
            heapq.heapreplace(self._free_at, done)
        return done


@functools.cache
def _cores_of_this_process(count: int) -> Cores:
    return Cores(count)


class _PacedVectorEnv(gymnasium.vector.VectorEnv):
    def __init__(self, num_envs: int, step_seconds: float, cores: Cores):
        self.num_envs = num_envs
        self.metadata = {"autoreset_mode": AutoresetMode.SAME_STEP}
        self.single_observation_space = spaces.Box(0, 255, (84, 84, 1), np.uint8)
        self.single_action_space = spaces.Discrete(6)
        self.observation_space = gymnasium.vector.utils.batch_space(self.single_observation_space, num_envs)
        self.action_space = gymnasium.vector.utils.batch_space(self.single_action_space, num_envs)
        self._seconds = step_seconds * num_envs
        self._cores = cores
        self._frames = np.random.default_rng(0).integers(0, 256, (_FRAMES, num_envs, 84, 84, 1), np.uint8)
        self._steps = 0

    def reset(
        self, *, seed: int | list[int] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        return self._frames[0], {}

    def step(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        done_at = self._cores.take(self._seconds, time.monotonic())
        time.sleep(max(0.0, done_at - time.monotonic()))
        self._steps += 1
        nothing = np.zeros(self.num_envs, bool)
        return self._frames[self._steps % _FRAMES], np.zeros(self.num_envs), nothing, nothing, {}
