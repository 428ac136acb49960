"""Super Mini Maps as bits: 16 binary planes in one uint16 [height, width]."""

from __future__ import annotations

import numpy as np
from gymnasium import spaces

LAYERS = 4
"""Binary planes of one map: left team, right team, ball, active player."""
STACK = 4
"""Maps that an observation holds, the oldest in the lowest bits; all the same at the start of an episode."""

_GRASS = (32, 96, 48)
_COLOURS = ((240, 200, 40), (220, 60, 50), (255, 255, 255), (70, 150, 255))
"""Of the layers."""


def observation_space(map_shape: tuple[int, int]) -> spaces.Box:
    """Of one environment: uint16 [height, width]."""
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
