"""Observations and actions in the form that can be sent: flat, with action masks packed to bits."""

import functools
import math
from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector import VectorEnv
from gymnasium.vector.utils import batch_space

from seed_rl.envs.base import CannotBuild, EnvironmentFailed, autoreset_mode, spec_of
from seed_rl.envs.spaces import Leaf, action_spec, check_size, leaves
from seed_rl.envs.vector import frames
from seed_rl.envs.vector.actions import flat_actions
from seed_rl.envs.vector.final import ConvertedVectorEnv
from seed_rl.foreign import kind_of, short_repr
from seed_rl.specs import LEGAL_ACTIONS, choices_of
from seed_rl.system.files import explaining

MASK = "action_mask"
"""The part of an observation that is an action mask, as in PettingZoo: 1 for each legal action, 0 for the others."""
_SENT_AS = {
    "int8": "int32",
    "int16": "int32",
    "uint32": "int64",
    **dict.fromkeys(("uint64", "float64", "float128"), "float32"),
}
"""Replacements for dtypes that can't be sent, or that are more precise than the networks' float32."""


class FlatVectorEnv(ConvertedVectorEnv):
    """Flattens observations to one Box or a flat Dict of Boxes, and actions to a vector, with choices from 0 on.

    Boxes stay the same, but for the layout of frames (see `frames.conversion`) and for dtypes that can't be sent, such
    as float64. Discrete(n) becomes one-hot bool [n], MultiDiscrete the concatenated codes of its choices, MultiBinary
    bool. The parts of a Dict or Tuple are named as in `spaces.Leaf`. For actions see `actions.flat_actions`.

    Action masks, the part `action_mask` or those below it, have a value for each choice of the action, 1 where it is
    legal. They become bits, as `specs.EnvSpec` says. Steps raise EnvironmentFailed if an environment allows no action,
    except at the end of an episode, if an observation or reward is not a number, or if an observation is not what its
    space declares: a choice that it doesn't have, or a number that its dtype can't hold.
    """

    def __init__(
        self,
        env: VectorEnv,
        keys: Sequence[str] = (),
        frame_size: int = 0,
        grayscale: bool = False,
        kept: Sequence[str] = (MASK,),
        name: str = "an environment",
    ):
        """Wrap environments, which messages call `name`, or raise CannotBuild with the space or key that is wrong.

        `keys` are names of the parts to keep, or of those to drop, with a minus in front; a name includes the parts
        below. The parts `kept` stay unless they are dropped. For `frame_size` and `grayscale` see `frames.conversion`.
        """
        autoreset_mode(env, name)
        super().__init__(env, name)
        with explaining(CannotBuild, name, ValueError):
            found = [leaf for leaf in leaves(env.single_observation_space) if 0 not in (leaf.space.shape or ())]
            self._parts = [(leaf, *_sent(leaf, frame_size, grayscale)) for leaf in _choose(found, keys, kept)]
            named: dict[str, gymnasium.Space[Any]] = {leaf.name: space for leaf, space, _ in self._parts}
            if len(named) < len(self._parts):
                raise ValueError(f"parts of an observation need different paths, got {env.single_observation_space}")
            self.single_action_space, self._to_action = flat_actions(env.single_action_space)
            self._masks = [name for name in named if f"{name}/".startswith(f"{MASK}/")]
            if all(name.rpartition("/")[2].isdecimal() for name in self._masks):
                self._masks.sort(key=len)  # 10 comes after 9
            if self._masks:
                named[LEGAL_ACTIONS] = self._mask_space([named.pop(name) for name in self._masks])
            self.single_observation_space = named[""] if "" in named else spaces.Dict(named)
            spec_of(self)
        self.observation_space = batch_space(self.single_observation_space, env.num_envs)
        self.action_space = batch_space(self.single_action_space, env.num_envs)

    def step(self, actions: np.ndarray) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        observation, reward, terminated, truncated, info = super().step(self._to_action(actions))
        parts = {f"observation {name}".rstrip(): tensor for name, tensor in _by_name(observation).items()}
        if truncated.any():
            last = _by_name(info.get("final_obs", {}))
            parts |= {f"last observation {name}".rstrip(): tensor for name, tensor in last.items()}
        for part, values in (parts | {"reward": np.asarray(reward)}).items():
            if values.dtype.kind == "f" and (odd := np.isnan(values)).any():
                where = f"environment {odd.reshape(len(odd), -1).any(axis=1).argmax()} of {len(odd)}"
                raise EnvironmentFailed(f"{where} of {self._name}: {part} must be a number, but is nan")
        return observation, reward, terminated, truncated, info

    @np.errstate(over="ignore")  # what is too large for float32 becomes infinity
    def convert(self, observation: Any, ended: np.ndarray) -> Any:
        flat = {}
        for leaf, _, convert in self._parts:
            values = np.asarray(leaf.of(observation))
            if not (fits := fitting(leaf.space, values)).all():
                odd = values[np.broadcast_to(fits, values.shape).reshape(len(values), -1).all(axis=1).argmin()]
                part = f"an environment of {self._name}: observation {leaf.name}".rstrip()
                came = short_repr(odd) if odd.size < 4 else kind_of(odd)
                raise EnvironmentFailed(f"{part} is declared as {short_repr(leaf.space)}, but came as {came}")
            flat[leaf.name] = convert(values)
        if self._masks:
            flat[LEGAL_ACTIONS] = self._pack([flat.pop(name) for name in self._masks], ended)
        return flat.get("", flat)

    def _mask_space(self, masks: Sequence[gymnasium.Space[Any]]) -> spaces.Box:
        choices = choices_of(action_spec(self.single_action_space))
        self._starts = np.cumsum((0, *choices[:-1]))
        size = sum(math.prod(space.shape or ()) for space in masks)
        if size != sum(choices):
            wanted = f"a mask of {sum(choices)} values" if choices else "no mask"
            remedy = f"keys = ('-{MASK}',) drops it"
            raise ValueError(f"actions {self.single_action_space} take {wanted}, but {MASK} has {size}: {remedy}")
        return spaces.Box(0, 255, (-(-size // 8),), np.uint8)

    def _pack(self, masks: Sequence[np.ndarray], ended: np.ndarray) -> np.ndarray:
        legal = np.concatenate([mask.reshape(len(ended), -1) for mask in masks], axis=1) == 1
        possible = np.logical_or.reduceat(legal, self._starts, axis=1).all(axis=1) | ended
        if not possible.all():
            where = f"environment {possible.argmin()} of {len(possible)}"
            raise EnvironmentFailed(f"{self._name} allows no action in {where}: {MASK} has no 1")
        return np.packbits(legal, axis=1, bitorder="little")


def fitting(space: gymnasium.Space[Any], values: np.ndarray) -> np.ndarray:
    """Where numbers, [...] or [E, ...], stay what they are in the dtype of a Box, or are among a space's choices."""
    dtype = np.dtype(space.dtype)
    if isinstance(space, spaces.Box) and (dtype.kind == "f" or values.dtype == dtype):
        return np.array(True)
    if values.dtype.kind not in "biu":
        return np.array(False)
    if isinstance(space, spaces.Box):
        return values.astype(dtype) == values
    if isinstance(space, spaces.MultiBinary):
        return (values == 0) | (values == 1)
    assert isinstance(space, spaces.Discrete | spaces.MultiDiscrete)
    sizes = space.n if isinstance(space, spaces.Discrete) else space.nvec
    return (values >= space.start) & (values < space.start + sizes)


def _by_name(observation: Any) -> dict[str, np.ndarray]:
    return observation if isinstance(observation, dict) else {"": observation}


def _choose(every: Sequence[Leaf], keys: Sequence[str], always: Sequence[str]) -> list[Leaf]:
    keeps_all = all(key.startswith("-") for key in keys)
    chosen = {leaf.path for leaf in every if keeps_all or (leaf.path and leaf.path[0] in always)}
    for key in sorted(keys, key=lambda key: key.startswith("-")):  # dropped after all others are kept
        name = key.removeprefix("-")
        below = {leaf.path for leaf in every if f"{leaf.name}/".startswith(f"{name}/")}
        if not below:
            known = ", ".join(leaf.name for leaf in every) or "the observation is one tensor"
            raise ValueError(f"there is no observation {name!r} to keep or drop (known: {known})")
        chosen = chosen - below if key.startswith("-") else chosen | below
    if not chosen:
        raise ValueError(f"keys {', '.join(keys)} leave no observation" if keys else "observations hold no number")
    return [leaf for leaf in every if leaf.path in chosen]


def _sent(leaf: Leaf, frame_size: int, grayscale: bool) -> tuple[spaces.Box, frames.Convert]:
    """The space of a tensor as it is sent, and the conversion to it."""
    name, space, _ = leaf
    check_size(f"observation {name}".rstrip(), space, f": keys = ('-{name}',) drops it" if name else "")
    flags: Any = np.bool_  # valid for a Box, despite its annotations
    if isinstance(space, spaces.Box):
        if (as_frames := frames.conversion(space, frame_size, grayscale)) is not None:
            return as_frames
        dtype = np.dtype(_SENT_AS.get(np.dtype(space.dtype).name, space.dtype))
        if dtype == np.uint16 and len(space.shape) in (1, 2):
            dtype = np.dtype(np.int32)  # uint16 of these ranks would mean words or bit planes
        sent: Any = dtype.type
        with np.errstate(over="ignore"):  # the largest float64 becomes infinity
            box = spaces.Box(space.low.astype(dtype), space.high.astype(dtype), dtype=sent)
        return box, functools.partial(np.ascontiguousarray, dtype=dtype)
    if isinstance(space, spaces.Discrete | spaces.MultiDiscrete):
        sizes = np.ravel(space.n if isinstance(space, spaces.Discrete) else space.nvec)
        return spaces.Box(0, 1, (int(sizes.sum()),), flags), _one_hot(sizes, np.ravel(space.start))
    if isinstance(space, spaces.MultiBinary):
        return spaces.Box(0, 1, space.shape, flags), functools.partial(np.asarray, dtype=np.bool_)
    kinds = "Box, Discrete, MultiDiscrete, MultiBinary, or Dict or Tuple of those"
    if not name:
        raise ValueError(f"observations must be {kinds}, got {space}")
    raise ValueError(f"observation {name} must be {kinds}, got {type(space).__name__}: keys = ('-{name}',) drops it")


def _one_hot(sizes: np.ndarray, starts: np.ndarray) -> frames.Convert:
    """The conversion of choices, integers [E, ...], to their concatenated one-hot codes, bool [E, sum of sizes]."""
    choice = np.repeat(np.arange(len(sizes)), sizes)
    value = np.concatenate([start + np.arange(n) for n, start in zip(sizes, starts, strict=True)])

    def convert(values: Any) -> np.ndarray:
        return np.take(np.asarray(values).reshape(len(values), -1), choice, axis=1) == value

    return convert
