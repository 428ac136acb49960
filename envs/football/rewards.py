"""Rewards besides goals."""

from __future__ import annotations

import numpy as np


class CheckpointRewards:
    """The rewards of coming nearer to the opponents' goal with the ball, of N environments.

    There are ten circles around the middle of the goal, with radii from 0.99 down to 0.19 of half the pitch's length.
    Each is worth 0.1, once in an episode, when the player with the ball is first within it; a goal collects those that
    are left.
    """

    COUNT = 10
    WORTH = 0.1
    _RADII = 0.99 - 0.8 / (COUNT - 1) * np.arange(COUNT)

    def __init__(self, num_envs: int):
        self._collected = np.zeros(num_envs, np.int64)

    def begin(self, which: np.ndarray) -> None:
        """Starts new episodes in environments bool [N]."""
        self._collected[which] = 0

    def step(self, score: np.ndarray, ball: np.ndarray, has_ball: np.ndarray) -> np.ndarray:
        """What is added to the rewards of a step, float64 [N].

        Args:
          score: float [N], the reward for goals of this step.
          ball: float [N, 2], its position, the opponents' goal at (1, 0).
          has_ball: bool [N], whether the player that acts has it.
        """
        distance = np.linalg.norm(ball - np.array([1.0, 0.0]), axis=-1)
        reached = np.count_nonzero(distance[:, None] <= self._RADII, axis=-1)
        now = np.where(has_ball, np.maximum(self._collected, reached), self._collected)
        now = np.where(score == 1, self.COUNT, now)
        gained = self.WORTH * (now - self._collected)
        self._collected = now
        return gained
