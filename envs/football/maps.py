"""Super Mini Maps as bits: 16 binary planes in one uint16 [height, width]."""

from __future__ import annotations

import numpy as np
from gymnasium import spaces

LAYERS = 4
"""Binary planes of one map: left team, right team, ball, active player."""
STACK = 4
"""Maps that an observation holds, the oldest in the lowest bits; all the same at the start of an episode."""


def observation_space(map_shape: tuple[int, int]) -> spaces.Box:
    """Of one environment: uint16 [height, width]."""
    return spaces.Box(0, np.iinfo(np.uint16).max, map_shape, np.uint16)


def stack_map(stacked: np.ndarray, newest: np.ndarray) -> np.ndarray:
    """Observations uint16 [..., H, W] with one more map, of `LAYERS` bits each, and without the oldest."""
    return (stacked >> LAYERS) | (newest << (LAYERS * (STACK - 1)))


def first_map(newest: np.ndarray) -> np.ndarray:
    """Observations at the start of an episode: the first map in all places."""
    return newest * np.uint16(sum(1 << (LAYERS * k) for k in range(STACK)))
