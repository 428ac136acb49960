"""Actions as networks give them: vectors, with choices from 0 on. E is the number of environments."""

import math
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import gymnasium
import numpy as np
from gymnasium import spaces

from seed_rl.envs.spaces import Mixed, check_size, leaves

_MOST_CHOICES = 1000
_Flat: TypeAlias = tuple[gymnasium.Space[Any], Callable[[np.ndarray], Any]]


def flat_actions(space: gymnasium.Space[Any]) -> _Flat:
    """The flat action space, and the conversion of its actions [E, ...] to the environment's own.

    A Box of floats becomes a float32 vector without the components whose bounds are equal; a Box of integers and
    MultiBinary become MultiDiscrete. The parts of a Dict or Tuple, at any depth, follow each other: first all choices,
    and then all numbers (`Mixed` if there are both). A part that is not supported raises ValueError with its name.
    """
    if not isinstance(space, spaces.Dict | spaces.Tuple):
        return _flat("actions", space)
    parts = [_flat(f"action {name}", own) for name, own, _ in leaves(space)]
    boxes: Any = [flat for flat, _ in parts if isinstance(flat, spaces.Box)]
    choices = [int(n) for flat, _ in parts for n in np.ravel(getattr(flat, "nvec", getattr(flat, "n", ())))]
    ends, cuts = {False: 0, True: len(choices)}, []  # of choices, and of numbers
    for flat, _ in parts:
        is_box, size = isinstance(flat, spaces.Box), math.prod(flat.shape or ())
        cuts.append(slice(ends[is_box], ends[is_box] + size))
        ends[is_box] += size

    def to_action(actions: np.ndarray) -> Any:
        columns = actions.reshape(len(actions), -1)
        taken = zip(cuts, parts, strict=True)
        return _tree(space, (own(columns[:, cut].reshape(-1, *(flat.shape or ()))) for cut, (flat, own) in taken))

    low, high = (np.concatenate([[], *(getattr(box, bound) for box in boxes)]) for bound in ("low", "high"))
    numbers = spaces.Box(low.astype(np.float32), high.astype(np.float32), dtype=np.float32)
    if choices and boxes:
        return Mixed(choices, numbers), to_action
    if choices:
        return spaces.Discrete(choices[0]) if len(choices) == 1 else spaces.MultiDiscrete(choices), to_action
    if boxes:
        return numbers, to_action
    raise ValueError(f"actions need a part, got {space}")


def _tree(space: Any, values: Iterator[Any]) -> Any:
    """Arranges values like a tree of spaces."""
    if isinstance(space, spaces.Dict):
        return {key: _tree(own, values) for key, own in space.items()}
    return tuple(_tree(own, values) for own in space) if isinstance(space, spaces.Tuple) else next(values)


def _flat(what: str, space: gymnasium.Space[Any]) -> _Flat:
    check_size(what, space)
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
            raise ValueError(f"{what}: a Box of integers may have at most {_MOST_CHOICES} values each, got {space}")
        space = spaces.MultiDiscrete(ranges.astype(np.int64), start=space.low.astype(np.int64))
    if isinstance(space, spaces.MultiDiscrete):
        starts = space.start.ravel()
        return spaces.MultiDiscrete(space.nvec.ravel()), lambda a: (a + starts).astype(dtype).reshape(-1, *shape)
    if isinstance(space, spaces.Box):
        if not np.issubdtype(dtype, np.floating) or not space.is_bounded():
            raise ValueError(f"{what}: a Box must be numeric and bounded on all sides, got {space}")
        low, high = space.low.ravel(), space.high.ravel()
        free = np.flatnonzero(low < high)
        if not len(free):  # there is only one possible action
            return spaces.Discrete(1), lambda a: np.broadcast_to(space.low, (len(a), *shape))

        def widen(actions: np.ndarray) -> np.ndarray:
            whole = np.repeat(low[np.newaxis], len(actions), axis=0)
            # After rounding to float32, a bound may lie slightly outside.
            whole[:, free] = np.clip(actions.astype(dtype), low[free], high[free])
            return whole.reshape(-1, *shape)

        return spaces.Box(low[free].astype(np.float32), high[free].astype(np.float32), dtype=np.float32), widen
    kinds = "Discrete, MultiDiscrete, MultiBinary, a bounded Box, or Dict or Tuple of those"
    raise ValueError(f"{what} must be {kinds}, got {space}")
