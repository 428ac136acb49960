"""Wrappers for vector environments: repeated actions, flat spaces."""

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv, VectorWrapper
from gymnasium.vector.utils import batch_space

from seed_rl.envs.base import CannotBuild, autoreset_mode, spec_of
from seed_rl.envs.spaces import Leaf, check_size, leaves
from seed_rl.envs.vector import frames
from seed_rl.envs.vector.actions import flat_actions
from seed_rl.envs.vector.final import ConvertedVectorEnv, final_numbers, final_observations, replace_rows
from seed_rl.envs.vector.masks import MASK, pack_masks
from seed_rl.system.files import explaining

_SENT_AS = {
    "int8": "int32",
    "int16": "int32",
    "uint32": "int64",
    **dict.fromkeys(("uint64", "float64", "float128"), "float32"),
}
"""Replacements for dtypes that can't be sent, or that are more precise than the networks' float32."""


class RepeatedActions(VectorWrapper):
    """Repeats each action and adds up the rewards, with SAME_STEP autoreset.

    All environments step together: one whose episode ends before the last repetition takes the action `idle` in its
    next episode for the rest of them, and the rewards and ends of these steps are ignored. `info` is that of the last
    repetition, but for the last observations and the numbers of episodes, which are those of all that have ended. If
    the environments have NEXT_STEP autoreset, an episode that ends in the last repetition ends one step later.
    """

    def __init__(self, env: VectorEnv, repeats: int, idle: int):
        """
        Args:
          env: an environment with discrete actions.
          repeats: number of steps per action, at least 1.
          idle: the action that does nothing.
        """
        super().__init__(_EndsLate(env) if autoreset_mode(env) == AutoresetMode.NEXT_STEP else env)
        self._repeats, self._idle = repeats, idle

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Step all environments `repeats` times."""
        reward, ends = np.zeros(self.num_envs), np.zeros((2, self.num_envs), bool)
        finals: dict[str, Any] = {"final_info": {}}
        for _ in range(self._repeats):
            ended = ends.any(axis=0)
            observation, further, *now, info = self.env.step(np.where(ended, self._idle, actions))
            reward = reward + np.where(ended, 0.0, further)
            new = np.array(now) & ~ended
            ends = ends | new
            for index, name, value in final_numbers(info.get("final_info"), np.any(new, axis=0)):
                finals = self._add_info(finals, {"final_info": {name: value}}, index)
            if "final_obs" in info and new[1].any():
                which = np.flatnonzero(new[1])
                last = final_observations(self.env, info, which)
                finals["final_obs"] = replace_rows(finals.get("final_obs", observation), which, last)
        return observation, reward, *ends, {**info, **finals}


class _EndsLate(VectorWrapper):
    """Shows NEXT_STEP autoreset as SAME_STEP: an episode ends with the first step of the next, whose reward is zero."""

    def __init__(self, env: VectorEnv):
        super().__init__(env)
        self.metadata = {**env.metadata, "autoreset_mode": AutoresetMode.SAME_STEP}
        self._before: Any = None

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        nowhere = np.zeros(self.num_envs, bool)
        observation, info = self.env.reset(seed=seed, options=options)
        self._before = observation, 0.0, nowhere, nowhere, {}
        return observation, info

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        last, _, terminated, truncated, info = self._before
        observation, reward, *_ = self._before = self.env.step(actions)
        return observation, reward, terminated, truncated & ~terminated, {"final_obs": last, "final_info": info}


class FlatVectorEnv(ConvertedVectorEnv):
    """Flattens observations to one Box or a flat Dict of Boxes, and actions to a vector, with choices from 0 on.

    Observations:

    - Boxes of any rank stay the same, with two exceptions: uint8 frames [H, W], [C, H, W] and stacks [N, H, W, C] (at
      most 16 channels, larger sides) become [H, W, C], and dtypes that can't be sent are converted, for example float64
      to float32.
    - Discrete(n) becomes one-hot bool [n], MultiDiscrete the concatenated one-hot codes of its parts, MultiBinary bool.
    - The parts of a Dict or Tuple are named by their path, such as `camera/left` or `0`; a key that is not allowed in a
      name is replaced by its position.

    Actions: a Box of floats of any shape becomes a float32 vector without the components whose bounds are equal; a Box
    of integers and MultiBinary become MultiDiscrete; choices are numbered from 0; a Dict or Tuple becomes one vector,
    `Mixed` if it has choices and numbers.
    """

    def __init__(
        self,
        env: VectorEnv,
        keys: Sequence[str] = (),
        frame_size: int = 0,
        grayscale: bool = False,
        kept: Sequence[str] = (MASK,),
    ):
        """
        Args:
          env: the environments.
          keys: names of the parts to keep, or of those to drop, with a minus in front; a name includes the parts below.
          frame_size: height and width of frames, if they are larger; 0 keeps their size.
          grayscale: whether RGB frames become gray (see `frames.conversion`).
          kept: names of parts that are kept unless `keys` drop them, such as action masks.

        Raises:
          ValueError: a space is not supported, or a key names no part; the message says which.
        """
        super().__init__(env)
        found = [leaf for leaf in leaves(env.single_observation_space) if 0 not in (leaf.space.shape or ())]
        self._parts = parts = [_part(leaf, frame_size, grayscale) for leaf in _choose(found, keys, kept)]
        if len({part.name for part in parts}) < len(parts):
            raise ValueError(f"parts of an observation need different paths, got {env.single_observation_space}")
        named: dict[str, gymnasium.Space[Any]] = {part.name: part.space for part in parts}
        self.single_observation_space = named[""] if "" in named else spaces.Dict(named)
        self.observation_space = batch_space(self.single_observation_space, env.num_envs)
        self.single_action_space, self._to_action = flat_actions(env.single_action_space)
        self.action_space = batch_space(self.single_action_space, env.num_envs)

    def own_actions(self, actions: np.ndarray) -> Any:
        return self._to_action(actions)

    @np.errstate(over="ignore")  # what is too large for float32 becomes infinity
    def convert(self, observation: Any, ended: np.ndarray) -> Any:
        flat = {}
        for part in self._parts:
            flat[part.name] = part.convert(functools.reduce(lambda tree, key: tree[key], part.path, observation))
        return flat.get("", flat)


def make_sendable(env: VectorEnv, name: str, *flattening: Any) -> VectorEnv:
    """Wrap environments so that observations and actions can be sent: flat, with packed action masks.

    Args:
      env: environments that reset themselves.
      name: name of the environments in messages.
      flattening: further arguments of `FlatVectorEnv`.

    Raises:
      CannotBuild: a space can't be sent, `keys` are wrong, or an action mask has another size than the actions.
    """
    autoreset_mode(env, name)
    with explaining(CannotBuild, name, ValueError):
        flat = pack_masks(FlatVectorEnv(env, *flattening), name)
        spec_of(flat)
    return flat


class _Part(NamedTuple):
    """One tensor of an observation."""

    name: str
    space: spaces.Box
    convert: Callable[[Any], np.ndarray]
    path: tuple[Any, ...]
    """Keys that lead to the tensor."""


def _choose(every: Sequence[Leaf], keys: Sequence[str], always: Sequence[str]) -> list[Leaf]:
    names = {key: key.removeprefix("-") for key in keys}
    below = {key: {leaf.path for leaf in every if f"{leaf.name}/".startswith(f"{names[key]}/")} for key in keys}
    for key, paths in below.items():
        if not paths:
            known = ", ".join(leaf.name for leaf in every) or "the observation is one tensor"
            raise ValueError(f"there is no observation {names[key]!r} to keep or drop (known: {known})")
    kept = [paths for key, paths in below.items() if not key.startswith("-")] or [{leaf.path for leaf in every}]
    dropped = [paths for key, paths in below.items() if key.startswith("-")]
    kept += [{leaf.path for leaf in every if leaf.path and leaf.path[0] in always}]
    chosen = set().union(*kept).difference(*dropped)
    if not chosen:
        raise ValueError(f"keys {', '.join(keys)} leave no observation" if keys else "observations hold no number")
    return [leaf for leaf in every if leaf.path in chosen]


def _part(leaf: Leaf, frame_size: int, grayscale: bool) -> _Part:
    name, space, path = leaf
    check_size(f"observation {name}".rstrip(), space, f": keys = ('-{name}',) drops it" if name else "")
    flags: Any = np.bool_  # valid for a Box, despite its annotations
    if isinstance(space, spaces.Box):
        if (as_frames := frames.conversion(space, frame_size, grayscale)) is not None:
            return _Part(name, *as_frames, path)
        dtype = np.dtype(_SENT_AS.get(np.dtype(space.dtype).name, space.dtype))
        if dtype == np.uint16 and len(space.shape) in (1, 2):
            dtype = np.dtype(np.int32)  # uint16 of these ranks would mean words or bit planes
        sent: Any = dtype.type
        with np.errstate(over="ignore"):  # the largest float64 becomes infinity
            box = spaces.Box(space.low.astype(dtype), space.high.astype(dtype), dtype=sent)
        return _Part(name, box, functools.partial(np.ascontiguousarray, dtype=dtype), path)
    if isinstance(space, spaces.Discrete | spaces.MultiDiscrete):
        sizes = np.ravel(space.n if isinstance(space, spaces.Discrete) else space.nvec)
        one_hot = _one_hot(sizes, np.ravel(space.start))
        return _Part(name, spaces.Box(0, 1, (int(sizes.sum()),), flags), one_hot, path)
    if isinstance(space, spaces.MultiBinary):
        return _Part(name, spaces.Box(0, 1, space.shape, flags), functools.partial(np.asarray, dtype=np.bool_), path)
    kinds = "Box, Discrete, MultiDiscrete, MultiBinary, or Dict or Tuple of those"
    if not name:
        raise ValueError(f"observations must be {kinds}, got {space}")
    raise ValueError(f"observation {name} must be {kinds}, got {type(space).__name__}: keys = ('-{name}',) drops it")


def _one_hot(sizes: np.ndarray, starts: np.ndarray) -> Callable[[Any], np.ndarray]:
    """The conversion of choices, integers [E, ...], to their concatenated one-hot codes, bool [E, sum of sizes]."""
    choice = np.repeat(np.arange(len(sizes)), sizes)
    value = np.concatenate([start + np.arange(n) for n, start in zip(sizes, starts, strict=True)])

    def convert(values: Any) -> np.ndarray:
        return np.take(np.asarray(values).reshape(len(values), -1), choice, axis=1) == value

    return convert
