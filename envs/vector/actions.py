"""Actions as networks give them: vectors, with choices from 0 on. E is the number of environments."""

from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from seed_rl.envs.spaces import check_size

_MOST_CHOICES = 1000


def flat_actions(space: gymnasium.Space[Any]) -> tuple[gymnasium.Space[Any], Callable[[np.ndarray], Any]]:
    """The flat action space, and the conversion of its actions [E, ...] to the environment's own."""
    check_size("actions", space)
    shape: Any = space.shape
    dtype: Any = space.dtype
    if isinstance(space, spaces.Discrete):
        start = np.asarray(space.start, dtype)
        return spaces.Discrete(int(space.n)), lambda a: a.astype(dtype) + start
    if isinstance(space, spaces.MultiBinary):
        space = spaces.MultiDiscrete(np.full(shape, 2))
    elif isinstance(space, spaces.Box) and np.issubdtype(dtype, np.integer):
        ranges = space.high.astype(float) - space.low.astype(float) + 1
        if np.any(ranges > _MOST_CHOICES):
            raise ValueError(f"a Box of integer actions may have at most {_MOST_CHOICES} values each, got {space}")
        space = spaces.MultiDiscrete(ranges.astype(np.int64), start=space.low.astype(np.int64))
    if isinstance(space, spaces.MultiDiscrete):
        starts = space.start.ravel()
        return spaces.MultiDiscrete(space.nvec.ravel()), lambda a: (a + starts).astype(dtype).reshape(-1, *shape)
    if isinstance(space, spaces.Box):
        if not np.issubdtype(dtype, np.floating) or not space.is_bounded():
            raise ValueError(f"a Box of actions must be numeric and bounded on all sides, got {space}")
        low, high = space.low.ravel(), space.high.ravel()
        free = np.flatnonzero(low < high)
        if not len(free):  # there is only one possible action
            return spaces.Discrete(1), lambda a: np.broadcast_to(space.low, (len(a), *shape))

        def widened(actions: np.ndarray) -> np.ndarray:
            whole = np.repeat(low[np.newaxis], len(actions), axis=0)
            # After rounding to float32, a bound may lie slightly outside.
            whole[:, free] = np.clip(actions.astype(dtype), low[free], high[free])
            return whole.reshape(-1, *shape)

        return spaces.Box(low[free].astype(np.float32), high[free].astype(np.float32), dtype=np.float32), widened
    raise ValueError(f"actions must be Discrete, MultiDiscrete, MultiBinary or a bounded Box, got {space}")
