"""Catch: a ball falls down a small board, and a paddle on the bottom row must catch it (Mnih et al. 2014)."""

import dataclasses
from typing import Annotated, Any, ClassVar

import gin
import gymnasium
import numpy as np
from gymnasium import spaces

from seed_rl.envs.base import EnvConfig, UniformVectorEnv, spec_of
from seed_rl.settings import Within
from seed_rl.specs import EnvSpec


@gin.configurable
@dataclasses.dataclass(frozen=True)
class Catch(EnvConfig):
    """Catch: the return is +1 for a catch and -1 for a miss, after an episode of `rows` - 1 steps."""

    suite: ClassVar[str] = "catch"

    rows: Annotated[int, Within(2, 1000)] = 10
    """Height of the board; an episode is one step shorter."""
    columns: Annotated[int, Within(1, 1000)] = 5
    """Width of the board."""

    def make(self, num_envs: int) -> gymnasium.vector.VectorEnv:
        return CatchVectorEnv(num_envs, self.rows, self.columns)

    def spec(self) -> EnvSpec:
        return spec_of(self.make(1))


class CatchVectorEnv(UniformVectorEnv):
    """Observations are uint8 [E, rows, columns, 1], 255 at the ball and the paddle; actions are left, stay, right."""

    def __init__(self, num_envs: int, rows: int, columns: int):
        super().__init__(num_envs, spaces.Box(0, 255, (rows, columns, 1), np.uint8), spaces.Discrete(3))
        self._rows, self._columns = rows, columns
        self._row, self._ball, self._paddle = np.zeros((3, num_envs), np.int64)

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        self._begin(np.ones(self.num_envs, bool))
        return self._render(), {}

    def step(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Move each paddle by its action - 1 and each ball down by one row."""
        self._paddle = np.clip(self._paddle + np.asarray(actions) - 1, 0, self._columns - 1)
        self._row += 1
        terminated = self._row == self._rows - 1
        reward = np.where(terminated, np.where(self._ball == self._paddle, 1.0, -1.0), 0.0)
        self._begin(terminated)
        return self._render(), reward, terminated, np.zeros(self.num_envs, bool), {}

    def _begin(self, which: np.ndarray) -> None:
        self._row[which] = 0
        self._ball[which] = self.np_random.integers(self._columns, size=np.count_nonzero(which))
        self._paddle[which] = self._columns // 2

    def _render(self) -> np.ndarray:
        board = np.zeros((self.num_envs, self._rows, self._columns, 1), np.uint8)
        envs = np.arange(self.num_envs)
        board[envs, self._row, self._ball] = 255
        board[envs, -1, self._paddle] = 255
        return board
