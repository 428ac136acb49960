"""Tic-tac-toe against a random opponent: an environment with an action mask, in PettingZoo's format.

PYTHONPATH=examples seed_rl train --gin_file=examples/tic_tac_toe.gin
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

LINES = np.array([(0, 1, 2), (3, 4, 5), (6, 7, 8), (0, 3, 6), (1, 4, 7), (2, 5, 8), (0, 4, 8), (2, 4, 6)])


class TicTacToe(gymnasium.Env):
    """The agent has the first move. Rewards: 1 for winning, -1 for losing, otherwise 0."""

    observation_space = spaces.Dict(
        {
            "observation": spaces.Box(0, 1, (2, 9), np.float32),  # the agent's marks, the opponent's marks
            "action_mask": spaces.Box(0, 1, (9,), np.int8),
        }
    )
    action_space = spaces.Discrete(9)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start a game."""
        super().reset(seed=seed)
        self._marks = np.zeros((2, 9), np.float32)
        return self._observation(), {}

    def step(self, action: int) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Make the agent's move and the opponent's."""
        assert not self._marks[:, action].any(), f"cell {action} is taken"
        self._marks[0, action] = 1
        free = np.flatnonzero(~self._marks.any(axis=0))
        if len(free) and not self._has_won(0):
            self._marks[1, self.np_random.choice(free)] = 1
        reward = float(self._has_won(0)) - float(self._has_won(1))
        return self._observation(), reward, bool(reward or self._marks.any(axis=0).all()), False, {}

    def _has_won(self, player: int) -> bool:
        return bool(self._marks[player][LINES].all(axis=1).any())

    def _observation(self) -> dict[str, np.ndarray]:
        return {"observation": self._marks.copy(), "action_mask": (~self._marks.any(axis=0)).astype(np.int8)}


gymnasium.register("TicTacToe-v0", TicTacToe)
