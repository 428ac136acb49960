"""The last observations of episodes, which environments with SAME_STEP autoreset return in `info`.

An observation of E environments is an array [E, ...] or a dictionary of such arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from gymnasium.vector import VectorEnv
from gymnasium.vector.utils import concatenate, create_empty_array


def final_observations(env: VectorEnv, info: Mapping[str, Any], which: np.ndarray) -> Any:
    """The last observations of episodes that have just ended.

    Args:
      env: the vector environment, after a step.
      info: the step's info. Its `final_obs` is an observation [E, ...], or an array of E objects, as in Gymnasium's own
        vector environments.
      which: int [n]: the environments whose episodes have ended.

    Returns:
      An observation [n, ...]; None if `info` has no `final_obs`.
    """
    final = info.get("final_obs")
    if isinstance(final, np.ndarray) and final.dtype == object:
        space = env.single_observation_space
        batch: Any = create_empty_array(space, len(which))
        return concatenate(space, [final[index] for index in which], batch)
    return None if final is None else rows(final, which)


def rows(observation: Any, which: np.ndarray) -> Any:
    """Copies the rows `which`, int [n], of an observation to an observation [n, ...]."""
    return _map(lambda tensor: tensor[which], observation)


def replaced(observation: Any, which: np.ndarray, new: Any) -> Any:
    """Copies an observation and replaces the rows `which`, int [n], with those of `new`, an observation [n, ...]."""

    def with_rows(tensor: np.ndarray, those: np.ndarray) -> np.ndarray:
        copy = np.array(tensor)
        copy[which] = those
        return copy

    return _map(with_rows, observation, new)


def _map(function: Callable[..., Any], observation: Any, *others: Any) -> Any:
    if not isinstance(observation, dict):
        return function(observation, *others)
    return {name: function(tensor, *(other[name] for other in others)) for name, tensor in observation.items()}
