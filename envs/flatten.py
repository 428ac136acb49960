"""Environments of many kinds of spaces as environments of the few that go over the wire."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector.utils import batch_space

_WIDER = {"int8": "int32", "int16": "int32", "uint32": "int64", "uint64": "float64", "float128": "float64"}
"""What dtypes that are not sent become. Networks compute in floats anyway."""

_MOST_CHANNELS = 16
_MOST_CHOICES = 1000


class FlatVectorEnv(gymnasium.vector.VectorWrapper):
    """Presents observations as one Box, or a Dict of Boxes without further nesting, and actions that start at 0.

    Boxes of any rank pass as they are, but for uint8 frames [H, W] and [C, H, W] (at most 16 channels, more pixels a
    side), which become [H, W, C], and for dtypes that are not sent, which become wider ones; Discrete(n) becomes a
    one-hot bool [n], MultiDiscrete the one-hots of its parts in a row, MultiBinary bool. The parts of a Dict or Tuple
    are named by their path, such as `camera/left` or `0`. A Box of actions is presented as a vector of float32, of any
    other rank or dtype though it may be, one of whole numbers and MultiBinary as MultiDiscrete; choices that start at
    another number than 0 as if they started there.
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
        self.single_action_space, self._to_action = _action_space(env.single_action_space)
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
    flags: Any = np.bool_  # which a Box may have, though its annotations do not say so
    if isinstance(space, spaces.Box):
        dtype = np.dtype(_WIDER.get(np.dtype(space.dtype).name, space.dtype))
        if dtype == np.uint16 and len(space.shape) == 2:
            dtype = np.dtype(np.int32)  # such maps are planes of bits where they come from suites of this project
        as_frames = _frames(space)
        if as_frames is not None:
            low, high = (as_frames(bound[np.newaxis])[0] for bound in (space.low, space.high))
            yield _Part(name, spaces.Box(low, high, dtype=np.uint8), as_frames, path)
            return
        bounds = space.low.astype(dtype), space.high.astype(dtype)
        sent: Any = dtype.type
        yield _Part(name, spaces.Box(*bounds, dtype=sent), functools.partial(np.ascontiguousarray, dtype=dtype), path)
    elif isinstance(space, spaces.Discrete):
        parts, starts = np.array([space.n]), np.array([space.start])
        yield _Part(name, spaces.Box(0, 1, (int(space.n),), flags), _OneHot(parts, starts), path)
    elif isinstance(space, spaces.MultiDiscrete):
        parts = space.nvec.ravel()
        yield _Part(name, spaces.Box(0, 1, (int(parts.sum()),), flags), _OneHot(parts, space.start.ravel()), path)
    elif isinstance(space, spaces.MultiBinary):
        yield _Part(name, spaces.Box(0, 1, space.shape, flags), functools.partial(np.asarray, dtype=np.bool_), path)
    elif isinstance(space, spaces.Dict | spaces.Tuple):
        children = space.items() if isinstance(space, spaces.Dict) else enumerate(space)
        for key, child in children:
            yield from _parts(f"{name}/{key}" if name else str(key), child, (*path, key))
    else:
        what = f"observation {name}" if name else "observations"
        raise ValueError(
            f"{what} must be Box, Discrete, MultiDiscrete, MultiBinary, or Dict or Tuple of those, got {space}"
        )


def _frames(space: spaces.Box) -> Callable[[Any], np.ndarray] | None:
    """What makes frames [E, H, W, C] of those of a space that has them in another form; None for other spaces."""
    if space.dtype != np.uint8 or len(space.shape) not in (2, 3) or min(space.shape[-2:]) <= _MOST_CHANNELS:
        return None
    if len(space.shape) == 2:
        return lambda frames: np.ascontiguousarray(frames)[..., np.newaxis]
    if space.shape[0] <= _MOST_CHANNELS:
        return lambda frames: np.ascontiguousarray(np.moveaxis(np.asarray(frames), 1, -1))
    return None


class _OneHot:
    """One-hot codes of choices, one beside the other."""

    def __init__(self, sizes: np.ndarray, starts: np.ndarray):
        self._owner = np.repeat(np.arange(len(sizes)), sizes)
        self._meant = np.concatenate([start + np.arange(n) for n, start in zip(sizes, starts, strict=True)])

    def __call__(self, values: Any) -> np.ndarray:
        """bool [E, sum of sizes] of integers [E, ...]."""
        values = np.asarray(values)
        return np.take(values.reshape(len(values), -1), self._owner, axis=1) == self._meant


def _action_space(space: gymnasium.Space[Any]) -> tuple[gymnasium.Space[Any], Callable[[np.ndarray], Any]]:
    """The space as it is presented, and what makes the environment's actions [E, ...] of those."""
    if isinstance(space, spaces.Discrete):
        start, dtype = int(space.start), space.dtype
        return spaces.Discrete(int(space.n)), lambda a: a.astype(dtype) + np.asarray(start, dtype)
    if isinstance(space, spaces.MultiBinary):
        space = spaces.MultiDiscrete(np.full(space.shape, 2), dtype=np.int8)
    if isinstance(space, spaces.MultiDiscrete):
        shape, starts, dtype = space.shape, space.start.ravel(), space.dtype
        flat = spaces.MultiDiscrete(space.nvec.ravel())
        return flat, lambda a: (a + starts).astype(dtype).reshape(-1, *shape)
    if isinstance(space, spaces.Box) and np.issubdtype(space.dtype, np.integer):
        ranges = space.high.astype(float) - space.low.astype(float) + 1
        if np.any(ranges > _MOST_CHOICES):
            raise ValueError(f"a Box of whole-numbered actions may have {_MOST_CHOICES} values each, got {space}")
        choices = spaces.MultiDiscrete(ranges.astype(np.int64), start=space.low.astype(np.int64))
        presented, to_choices = _action_space(choices)
        whole = space.dtype
        return presented, lambda a: to_choices(a).astype(whole)
    if isinstance(space, spaces.Box):
        shape, dtype = space.shape, space.dtype
        if not np.issubdtype(dtype, np.floating) or not space.is_bounded():
            raise ValueError(f"a Box of actions must be of numbers and bounded on all sides, got {space}")
        low, high = space.low, space.high
        vector = spaces.Box(low.ravel().astype(np.float32), high.ravel().astype(np.float32), dtype=np.float32)
        # Rounded to float32, a bound may be a little outside.
        return vector, lambda a: np.clip(a.astype(dtype).reshape(-1, *shape), low, high)
    raise ValueError(f"actions must be Discrete, MultiDiscrete, MultiBinary or a bounded Box, got {space}")
