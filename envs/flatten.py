"""Environments of many kinds of spaces as environments of the few that go over the wire."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector.utils import batch_space

from seed_rl.specs import DTYPES


class FlatVectorEnv(gymnasium.vector.VectorWrapper):
    """Presents observations as one Box, or a Dict of Boxes without further nesting, and actions that start at 0.

    Boxes of any rank pass as they are; Discrete(n) becomes a one-hot bool [n]; the parts of a Dict or Tuple are named
    by their path, such as `camera/left` or `0`. A Box of actions is presented as a vector of float32, of any other rank
    or dtype though it may be; choices that start at another number than 0 as if they started there.
    """

    def __init__(self, env: gymnasium.vector.VectorEnv):
        """
        Raises:
          ValueError: a space of another kind; the message names it.
        """
        super().__init__(env)
        parts = list(_parts("", env.single_observation_space))
        if len({part.name for part in parts}) < len(parts):
            raise ValueError(f"each part of an observation needs its own path, got {env.single_observation_space}")
        self._parts = parts
        if len(parts) == 1 and parts[0].name == "":
            self.single_observation_space = parts[0].space
        else:
            self.single_observation_space = spaces.Dict({part.name: part.space for part in parts})
        self.observation_space = batch_space(self.single_observation_space, env.num_envs)
        self.single_action_space, self._to_action = _action_space(env.single_action_space, env.action_space)
        self.action_space = batch_space(self.single_action_space, env.num_envs)

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Starts every episode anew."""
        observation, info = self.env.reset(seed=seed, options=options)
        return self._flatten(observation), info

    def step(self, actions: np.ndarray) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Steps all environments with actions [E, ...]."""
        observation, reward, terminated, truncated, info = self.env.step(self._to_action(actions))
        return self._flatten(observation), np.asarray(reward, np.float64), terminated, truncated, info

    def _flatten(self, observation: Any) -> Any:
        flat = {part.name: part.convert(part.find(observation)) for part in self._parts}
        return flat.get("", flat)


class _Part:
    """One tensor of an observation."""

    def __init__(self, name: str, space: spaces.Box, convert: Callable[[Any], np.ndarray], path: tuple[Any, ...] = ()):
        self.name = name
        self.space = space
        self.convert = convert
        self.path = path

    def find(self, observation: Any) -> Any:
        """The part of a batch of observations."""
        for key in self.path:
            observation = observation[key]
        return observation


def _parts(name: str, space: gymnasium.Space[Any], path: tuple[Any, ...] = ()) -> Iterator[_Part]:
    if isinstance(space, spaces.Box) and np.dtype(space.dtype).name in DTYPES:
        yield _Part(name, space, functools.partial(np.ascontiguousarray, dtype=space.dtype), path)
    elif isinstance(space, spaces.Discrete):
        n, start = int(space.n), int(space.start)
        dtype: Any = np.bool_  # which a Box may have, though its annotations do not say so
        yield _Part(name, spaces.Box(0, 1, (n,), dtype), functools.partial(_one_hot, n=n, start=start), path)
    elif isinstance(space, spaces.Dict | spaces.Tuple):
        children = space.items() if isinstance(space, spaces.Dict) else enumerate(space)
        for key, child in children:
            yield from _parts(f"{name}/{key}" if name else str(key), child, (*path, key))
    else:
        raise ValueError(f"observations must be Box, Discrete, or Dict or Tuple of those, got {space}")


def _one_hot(values: Any, n: int, start: int) -> np.ndarray:
    return (np.asarray(values, np.int64)[:, None] - start) == np.arange(n)


def _action_space(
    space: gymnasium.Space[Any], batched: gymnasium.Space[Any]
) -> tuple[gymnasium.Space[Any], Callable[[np.ndarray], Any]]:
    """The space as it is presented, and what makes the environment's actions [E, ...] of those."""
    if isinstance(space, spaces.Discrete):
        start, dtype = int(space.start), space.dtype
        return spaces.Discrete(int(space.n)), lambda a: a.astype(dtype) + np.asarray(start, dtype)
    if isinstance(space, spaces.MultiDiscrete):
        shape, starts, dtype = space.shape, space.start.ravel(), space.dtype
        flat = spaces.MultiDiscrete(space.nvec.ravel())
        return flat, lambda a: (a + starts).astype(dtype).reshape(-1, *shape)
    if isinstance(space, spaces.Box):
        shape, dtype = space.shape, space.dtype
        if not np.issubdtype(dtype, np.floating) or not space.is_bounded():
            raise ValueError(f"a Box of actions must be of floats and bounded on all sides, got {space}")
        low, high = space.low, space.high
        vector = spaces.Box(low.ravel().astype(np.float32), high.ravel().astype(np.float32), dtype=np.float32)
        # Rounded to float32, a bound may be a little outside.
        return vector, lambda a: np.clip(a.astype(dtype).reshape(-1, *shape), low, high)
    raise ValueError(f"actions must be Discrete, MultiDiscrete or a bounded Box, got {space}")
