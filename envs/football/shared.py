"""The parts that both backends share: Super Mini Maps as bits, and the rewards of checkpoints."""

from __future__ import annotations

import numpy as np
from gymnasium import spaces

LAYERS = 4
"""Binary planes of one map: left team, right team, ball, active player."""
STACK = 4
"""Maps in an observation, the oldest in the lowest bits; all the same at the start of an episode."""

_GRASS = (32, 96, 48)
_COLOURS = ((240, 200, 40), (220, 60, 50), (255, 255, 255), (70, 150, 255))
"""Of the layers."""


def observation_space(map_shape: tuple[int, int]) -> spaces.Box:
    """Of one environment: 16 binary planes in one uint16 [height, width]."""
    return spaces.Box(0, np.iinfo(np.uint16).max, map_shape, np.uint16)


def stack_map(stacked: np.ndarray, newest: np.ndarray) -> np.ndarray:
    """Observations uint16 [..., H, W] with one more map, of `LAYERS` bits each, and without the oldest."""
    return (stacked >> LAYERS) | (newest << (LAYERS * (STACK - 1)))


def first_map(newest: np.ndarray) -> np.ndarray:
    """Observations at the start of an episode: the first map in all places."""
    return newest * np.uint16(sum(1 << (LAYERS * k) for k in range(STACK)))


def newest_in_colours(stacked: np.ndarray) -> np.ndarray:
    """The last map of an observation [H, W], for people: uint8 [H, W, 3].

    The left team is yellow, its active player blue, the right team red, and the ball white.
    """
    picture = np.empty((*stacked.shape, 3), np.uint8)
    picture[:] = _GRASS
    for layer in (0, 1, 3, 2):  # the ball lies on top
        picture[(stacked >> (LAYERS * (STACK - 1) + layer)) & 1 == 1] = _COLOURS[layer]
    return picture


class CheckpointRewards:
    """Rewards of N environments for bringing the ball closer to the opponents' goal.

    Ten circles surround the middle of the goal, with radii from 0.99 down to 0.19 of half the pitch's length. Each
    gives 0.1, once per episode, when the player with the ball first enters it; a goal gives the remaining ones.
    """

    COUNT = 10
    REWARD = 0.1
    _RADII = 0.99 - 0.8 / (COUNT - 1) * np.arange(COUNT)

    def __init__(self, num_envs: int):
        self._collected = np.zeros(num_envs, np.int64)

    def begin(self, which: np.ndarray) -> None:
        """Starts new episodes in environments bool [N]."""
        self._collected[which] = 0

    def step(self, score: np.ndarray, ball: np.ndarray, has_ball: np.ndarray) -> np.ndarray:
        """Additional rewards of a step, float64 [N].

        Args:
          score: float [N], the reward for goals in this step.
          ball: float [N, 2], its position; the opponents' goal is at (1, 0).
          has_ball: bool [N], whether the active player has it.
        """
        distance = np.linalg.norm(ball - np.array([1.0, 0.0]), axis=-1)
        reached = np.count_nonzero(distance[:, None] <= self._RADII, axis=-1)
        now = np.where(has_ball, np.maximum(self._collected, reached), self._collected)
        now = np.where(score == 1, self.COUNT, now)
        gained = self.REWARD * (now - self._collected)
        self._collected = now
        return gained
