"""Gymnasium's spaces as specs."""

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from seed_rl.specs import ActionSpec, ArraySpec, ContinuousSpec, DiscreteSpec, MultiDiscreteSpec


def observation_spec(space: gymnasium.Space[Any]) -> ArraySpec | dict[str, ArraySpec]:
    """The spec of an observation space; raises ValueError if it can't be sent."""
    if isinstance(space, spaces.Box):
        return _array_spec("observations", space)
    if isinstance(space, spaces.Dict) and all(isinstance(part, spaces.Box) for part in space.values()):
        return {name: _array_spec(f"observation {name}", part) for name, part in space.items()}
    raise ValueError(f"observations must be a Box or a Dict of Boxes (FlatVectorEnv converts others), got {space}")


def _array_spec(subject: str, space: gymnasium.Space[Any]) -> ArraySpec:
    assert space.shape is not None
    try:
        return ArraySpec(tuple(int(n) for n in space.shape), np.dtype(space.dtype).name)
    except ValueError as error:
        raise ValueError(f"{subject} can't come from {space}: {error}") from error


def action_spec(space: gymnasium.Space[Any]) -> ActionSpec:
    """The spec of an action space; raises ValueError if it can't be sent."""
    if isinstance(space, spaces.Discrete) and space.start == 0:
        return DiscreteSpec(int(space.n))
    if isinstance(space, spaces.MultiDiscrete) and len(space.shape) == 1 and not np.any(space.start):
        return MultiDiscreteSpec(tuple(int(n) for n in space.nvec))
    if isinstance(space, spaces.Box) and len(space.shape) == 1 and space.dtype == np.float32:
        try:
            return ContinuousSpec(tuple(space.low.tolist()), tuple(space.high.tolist()))
        except ValueError as error:
            raise ValueError(f"actions can't come from {space}: {error}") from error
    raise ValueError(
        f"actions must be Discrete or MultiDiscrete [K] and start at 0, or a bounded float32 Box [K], got {space}"
    )
