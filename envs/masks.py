"""Action masks of environments: found where environments give them, checked, and packed into the observation.

Shapes: E environments, N values, which are A actions or the values of K choices one after another.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector import VectorEnv, VectorWrapper
from gymnasium.vector.utils import batch_space

from seed_rl.envs.base import EnvironmentFailed, failure, spec_of
from seed_rl.envs.final import final_observations, replaced
from seed_rl.specs import LEGAL_ACTIONS

_METHOD = "action_masks"
_PLACES = {"none": (), "auto": ("action_mask", "legal_action_mask", _METHOD)}
"""The keys and the method that give masks in Gymnasium and PettingZoo, EnvPool, and Stable-Baselines3."""


class _MaskInObservation:
    """Adds the mask that `info` or a method of the environment gives to the observation; if absent, it is all zero."""

    env: Any

    def __init__(self, env: Any, place: str, shape: tuple[int, ...]):
        super().__init__(env)  # type: ignore[call-arg]
        self._place, self._absent = place, np.zeros(shape, np.bool_)

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        observation, info = self.env.reset(seed=seed, options=options)
        return self._joined(observation, info), info

    def step(self, action: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        observation, reward, terminated, truncated, info = self.env.step(action)
        return self._joined(observation, info), reward, terminated, truncated, info

    def _joined(self, observation: Any, info: Mapping[str, Any]) -> dict[str, Any]:
        mask = _mask_at(self._place, self.env, info)
        return {**_named(observation), self._place: self._absent if mask is None else mask}


class _Masked(_MaskInObservation, gymnasium.Wrapper):
    def __init__(self, env: gymnasium.Env, place: str, size: int):
        super().__init__(env, place, (size,))
        self.observation_space = _space_with_mask(env.observation_space, place, size)


class _MaskedVector(_MaskInObservation, VectorWrapper):
    def __init__(self, env: VectorEnv, place: str, size: int):
        super().__init__(env, place, (env.num_envs, size))
        self.single_observation_space = _space_with_mask(env.single_observation_space, place, size)
        self.observation_space = batch_space(self.single_observation_space, env.num_envs)


def with_mask(env: Any, name: str, setting: str, known: list[tuple[str, int]]) -> Any:
    """Puts the action mask that an environment, or a vector environment, gives elsewhere into its observation.

    If the observation has no mask and there are choices, a reset shows whether there is a mask elsewhere.

    Args:
      env: the environment.
      name: its name in messages.
      setting: `Gym.action_mask`.
      known: where the first of several equal environments gives its mask, and N; filled in by its call.
    """
    if not known:
        known.append(_mask_of(env, name, setting))
    place, size = known[0]
    if not place:
        return env
    return (_MaskedVector if isinstance(env, VectorEnv) else _Masked)(env, place, size)


def _mask_of(env: Any, name: str, setting: str) -> tuple[str, int]:
    single = "single_" if isinstance(env, VectorEnv) else ""
    observation, action = (getattr(env, f"{single}{part}_space", None) for part in ("observation", "action"))
    places = _places(setting)
    has_mask = isinstance(observation, spaces.Dict) and any(place in observation.spaces for place in places)
    if not places or has_mask or (isinstance(action, spaces.Box) and action.dtype.kind == "f"):
        return "", 0
    try:
        returned = env.reset()
        info = returned[1] if isinstance(returned, tuple) and isinstance(returned[-1], Mapping) else {}
        masks = {place: _mask_at(place, env, info) for place in places}
    except (Exception, SystemExit) as error:
        raise failure(f"{name} failed in reset", error) from error
    place, mask = next(((place, mask) for place, mask in masks.items() if mask is not None), ("", ()))
    return place, np.shape(mask)[-1]


def _places(setting: str) -> tuple[str, ...]:
    return _PLACES.get(setting, (setting,))


def _mask_at(place: str, env: Any, info: Mapping[str, Any]) -> np.ndarray | None:
    """The mask that an environment gives, bool [N] or [E, N]; None if it gives none."""
    if isinstance(env, VectorEnv):
        mask = info.get(place)
        return None if mask is None else np.reshape(mask, (env.num_envs, -1)) != 0
    mask = env.get_wrapper_attr(place)() if place == _METHOD and env.has_wrapper_attr(place) else info.get(place)
    return None if mask is None else np.concatenate([np.ravel(part) for part in mask]) != 0


def _named(observation: Any) -> dict[str, Any]:
    return dict(observation) if isinstance(observation, Mapping) else {"observation": observation}


def _space_with_mask(space: gymnasium.Space[Any], place: str, size: int) -> spaces.Dict:
    return spaces.Dict({**_named(space), place: spaces.MultiBinary(size)})


def packed(env: VectorEnv, name: str, setting: str = "auto") -> VectorEnv:
    """Packs the masks in observations to bits, as `specs.EnvSpec` says; without masks, returns the same environments.

    Args:
      env: SAME_STEP environments with spaces as of `FlatVectorEnv`. Their masks have N values, or one for each
        combination of K choices, which then become a single choice.
      name: name of the environments in messages.
      setting: `Gym.action_mask`.

    Raises:
      ValueError: the masks have another size, or there are none where the setting says.
    """
    space = env.single_observation_space
    for place in _places(setting) if isinstance(space, spaces.Dict) else ():
        keys = [key for key in space.spaces if key == place or key.startswith(f"{place}/")]
        if keys:
            return PackedMasks(env, name, sorted(keys, key=lambda key: (len(key), key)))  # part 10 follows part 9
    if setting in _PLACES:
        return env
    raise ValueError(f"neither the observation nor info has an action mask {setting!r} (Gym.action_mask)")


class PackedMasks(VectorWrapper):
    """Vector environments with packed action masks; see `packed`.

    `reset` and `step` raise EnvironmentFailed where no action is legal, except at the end of an episode.
    """

    def __init__(self, env: VectorEnv, name: str, keys: list[str]):
        """
        Args:
          env: the environments.
          name: their name in messages.
          keys: keys of the tensors of the mask, in the order of the choices.
        """
        super().__init__(env)
        self._name, self._keys = name, keys
        rest = dict(env.single_observation_space.items())  # type: ignore[attr-defined]
        size = sum(math.prod(rest.pop(key).shape) for key in keys)
        self._combined, self._choices = (), spec_of(env).action.choices
        if len(self._choices) > 1 and size == math.prod(self._choices) != sum(self._choices):
            self._combined, self._choices = self._choices, (size,)
            self.single_action_space = spaces.Discrete(size)
            self.action_space = batch_space(self.single_action_space, env.num_envs)
        if size != sum(self._choices):
            wanted = f"a mask of {sum(self._choices)} values" if self._choices else "no mask"
            raise ValueError(
                f"actions {env.single_action_space} take {wanted}, but {keys[0]} has {size}; "
                "Gym.action_mask = 'none' makes it an input like any other"
            )
        bits = spaces.Box(0, 255, (-(-size // 8),), np.uint8)
        self.single_observation_space = spaces.Dict({**rest, LEGAL_ACTIONS: bits})
        self.observation_space = batch_space(self.single_observation_space, env.num_envs)

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Starts new episodes."""
        observation, info = self.env.reset(seed=seed, options=options)
        return self._packed(observation, np.zeros(self.num_envs, bool)), info

    def step(self, actions: np.ndarray) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Steps all environments with actions [E, ...]."""
        if self._combined:
            actions = np.stack(np.unravel_index(actions, self._combined), axis=-1).astype(np.int32)
        observation, reward, terminated, truncated, info = self.env.step(actions)
        ended = np.any(info.get("ended", [np.zeros(self.num_envs, bool)]), axis=0)  # by `SameStep`
        observation = self._packed(observation, ended)
        if "final_obs" in info and truncated.any():
            which = np.flatnonzero(truncated)
            final = self._packed(final_observations(self.env, info, which), np.ones(len(which), bool))
            info = {**info, "final_obs": replaced(observation, which, final)}
        return observation, reward, terminated, truncated, info

    def _packed(self, observation: Mapping[str, Any], ended: np.ndarray) -> dict[str, Any]:
        mask = np.concatenate([observation[key].reshape(len(ended), -1) for key in self._keys], axis=1) != 0
        starts = np.cumsum((0, *self._choices[:-1]))
        possible = np.logical_or.reduceat(mask, starts, axis=1).all(axis=1) | ended
        if not possible.all():
            where = f"environment {possible.argmin()} of {len(possible)}"
            raise EnvironmentFailed(f"{self._name} allows no action in {where}: {self._keys[0]} is absent or all zero")
        rest = {key: tensor for key, tensor in observation.items() if key not in self._keys}
        return {**rest, LEGAL_ACTIONS: np.packbits(mask, axis=1, bitorder="little")}
