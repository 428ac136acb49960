"""Action masks of environments: found where environments give them, checked, and packed into the observation.

Shapes: E environments, N values, which are A actions or the values of K choices one after another.
"""

import copy
import math
from collections.abc import Collection, Iterator, Mapping
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector import VectorEnv, VectorWrapper
from gymnasium.vector.utils import batch_space

from seed_rl.envs.base import CannotBuild, EnvironmentFailed, failure, spec_of
from seed_rl.envs.vector.final import final_observations, replaced
from seed_rl.specs import LEGAL_ACTIONS, MultiDiscreteSpec, choices_of

_METHOD = "action_masks"
USUAL_PLACES = ("action_mask", "legal_action_mask", _METHOD)
"""Keys and the method under which Gymnasium, PettingZoo, EnvPool and Stable-Baselines3 give masks."""
_PLACES = {"none": (), "auto": USUAL_PLACES}


def places_of(setting: str) -> tuple[str, ...]:
    """The keys or methods under which a mask is looked for, given `Gym.action_mask`."""
    return _PLACES.get(setting, (setting,))


def with_mask(env: gymnasium.Env, name: str, setting: str, known: list[tuple[str, int]]) -> gymnasium.Env:
    """Puts the action mask that an environment gives elsewhere into its observation.

    If it has choices, but no mask in the observation, a reset and a step show whether there is one elsewhere.

    Args:
      env: the environment.
      name: its name in messages.
      setting: `Gym.action_mask`.
      known: where the first of several equal environments gives its mask, and N; filled in by its call.

    Raises:
      CannotBuild: there is a mask in the step, but none in the reset.
    """
    known += [] if known else [_found(env, name, places_of(setting))]
    place, size = known[0]
    return _MaskInObservation(env, name, place, size) if place else env


def packed(env: VectorEnv, setting: str = "auto", name: str = "an environment", in_info: bool = False) -> VectorEnv:
    """Packs action masks to bits in the observation, as `specs.EnvSpec` says; without masks, returns `env`.

    Steps raise EnvironmentFailed if an environment allows no action, except at the end of an episode.

    Args:
      env: SAME_STEP environments with spaces as of `FlatVectorEnv`. Their masks have N values, or one for each
        combination of K choices, which then become a single choice.
      setting: `Gym.action_mask`.
      name: name of the environments in messages.
      in_info: whether to look into the `info` of a reset as well.

    Raises:
      CannotBuild: there is a mask in the `info` of a step, but none in that of the reset.
      ValueError: the masks have another size, or there are none where the setting says.
    """
    tensors, places = named(env.single_observation_space), places_of(setting)
    looks = in_info and places and choices_of(spec_of(env).action)
    info = env.reset()[1] if looks else {}
    for place in places:
        keys = sorted((key for key in tensors if f"{key}/".startswith(f"{place}/")), key=len)  # 10 comes after 9
        if keys or place in info:
            sizes = [math.prod(tensors[key].shape) for key in keys] or [np.size(info[place]) // env.num_envs]
            remedy = "Gym.action_mask = 'none' ignores it"
            if keys and setting == "auto":
                remedy = f"keys = ('-{place}',) drops it"
            return _PackedMasks(env, name, place, keys, sum(sizes), remedy)
    if setting in _PLACES:
        if looks:
            later = env.step(_an_action(env))[-1]
            _refuse(name, [place for place in places if place in later])
        return env
    raise ValueError(f"neither the observation nor info has an action mask {setting!r} (Gym.action_mask)")


class _MaskInObservation(gymnasium.Wrapper):
    """Adds the mask that `info` or a method gives to the observation, under the same name; zeros if it is absent."""

    def __init__(self, env: gymnasium.Env, name: str, place: str, size: int):
        super().__init__(env)
        self._name, self._place, self._absent = name, place, np.zeros(size, np.bool_)
        self.observation_space = spaces.Dict({**named(env.observation_space), place: spaces.MultiBinary(size)})

    def reset(self, **options: Any) -> Any:
        return self._with_mask(*self.env.reset(**options))

    def step(self, action: Any) -> Any:
        return self._with_mask(*self.env.step(action))

    def _with_mask(self, observation: Any, *rest: Any) -> Any:
        mask = _mask_of(self.env, self._name, self._place, rest[-1])
        return {**named(observation), self._place: self._absent if mask is None else mask}, *rest


class _PackedMasks(VectorWrapper):
    """Packs masks of N = `size` values, the tensors `keys` of the observation; without keys, `place` in `info`."""

    def __init__(self, env: VectorEnv, name: str, place: str, keys: list[str], size: int, remedy: str):
        super().__init__(env)
        self._name, self._place, self._keys, self._size = name, place, keys, size
        action = spec_of(env).action
        choices = choices_of(action)
        self._combined: tuple[int, ...] = ()
        if isinstance(action, MultiDiscreteSpec) and size == math.prod(choices) != sum(choices):
            self._combined, choices = choices, (size,)
            self.single_action_space = spaces.Discrete(size)
            self.action_space = batch_space(self.single_action_space, env.num_envs)
        if size != sum(choices):
            wanted = f"a mask of {sum(choices)} values" if choices else "no mask"
            raise ValueError(f"actions {env.single_action_space} take {wanted}, but {place} has {size}: {remedy}")
        self._starts = np.cumsum((0, *choices[:-1]))
        bits = {LEGAL_ACTIONS: spaces.Box(0, 255, (-(-size // 8),), np.uint8)}
        self.single_observation_space = spaces.Dict(self._rest(env.single_observation_space) | bits)
        self.observation_space = batch_space(self.single_observation_space, env.num_envs)

    def reset(self, *, seed: Any = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        observation, info = self.env.reset(seed=seed, options=options)
        return self._packed(observation, info, np.zeros(self.num_envs, bool)), info

    def step(self, actions: np.ndarray) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        if self._combined:
            actions = np.stack(np.unravel_index(actions, self._combined), axis=-1).astype(np.int32)
        observation, reward, terminated, truncated, info = self.env.step(actions)
        ended = np.any(info.get("ended", [np.zeros(self.num_envs, bool)]), axis=0)  # by `SameStep`
        observation = self._packed(observation, info, ended)
        if "final_obs" in info and truncated.any():
            which = np.flatnonzero(truncated)
            unknown = {self._place: np.zeros((len(which), self._size))}
            final = self._packed(final_observations(self.env, info, which), unknown, np.ones(len(which), bool))
            info = {**info, "final_obs": replaced(observation, which, final)}
        return observation, reward, terminated, truncated, info

    def _packed(self, observation: Any, info: Any, ended: np.ndarray) -> dict[str, Any]:
        parts = [observation[key] for key in self._keys] or [info[self._place]]
        mask = np.concatenate([np.reshape(part, (len(ended), -1)) for part in parts], axis=1)
        if mask.shape[1] != self._size:
            had = f"{self._place} had {self._size} values in the first reset"
            raise CannotBuild(f"{self._name}: {had}, but came with {mask.shape[1]}")
        mask = _flags(mask, f"{self._name}: {self._place}")
        possible = np.logical_or.reduceat(mask, self._starts, axis=1).all(axis=1) | ended
        if not possible.all():
            where = f"environment {possible.argmin()} of {len(possible)}"
            raise EnvironmentFailed(f"{self._name} allows no action in {where}: {self._place} is absent or all zero")
        return {**self._rest(observation), LEGAL_ACTIONS: np.packbits(mask, axis=1, bitorder="little")}

    def _rest(self, observation: Any) -> dict[str, Any]:
        return {key: value for key, value in named(observation).items() if key not in self._keys}


def _found(env: gymnasium.Env, name: str, places: tuple[str, ...]) -> tuple[str, int]:
    observation, action = (getattr(env, f"{part}_space", None) for part in ("observation", "action"))
    seen = isinstance(observation, spaces.Dict) and any(place in observation.spaces for place in places)
    chooses = isinstance(action, gymnasium.Space) and not (isinstance(action, spaces.Box) and action.dtype.kind == "f")
    if not places or seen or not chooses:
        return "", 0
    where = "reset"
    try:
        masks = _masks_of(env, name, places, env.reset())
        where = "step"
        # If `Gym.action_mask` names the place, a mask that is not in the reset is an error anyway.
        later = {} if masks or places != USUAL_PLACES else _masks_of(env, name, places, env.step(_an_action(env)))
    except (Exception, SystemExit) as error:  # an environment may raise anything
        raise failure(f"{name} failed in {where}", error) from error
    _refuse(name, later)
    return next(((place, mask.size) for place, mask in masks.items()), ("", 0))


def _an_action(env: gymnasium.Env | VectorEnv) -> Any:
    """An action, always the same, that leaves the space's own random numbers alone."""
    space = copy.deepcopy(env.action_space)
    space.seed(0)
    return space.sample()


def _refuse(name: str, places: Collection[str]) -> None:
    """Raises CannotBuild if a step has masks in any places, after a reset without."""
    if places:
        place = next(iter(places))
        where = f"{_METHOD}()" if place == _METHOD else f"info[{place!r}]"
        raise CannotBuild(
            f"{name} has an action mask in {where} of a step, but had none in the reset, and so can't be trained with "
            "it: give it at every reset and step, or set Gym.action_mask = 'none'"
        )


def _masks_of(env: gymnasium.Env, name: str, places: tuple[str, ...], returned: Any) -> dict[str, np.ndarray]:
    """The masks after a reset or step, given what it has returned, by place."""
    info = returned[-1] if isinstance(returned, tuple) and returned and isinstance(returned[-1], Mapping) else {}
    masks = {place: _mask_of(env, name, place, info) for place in places}
    return {place: mask for place, mask in masks.items() if mask is not None}


def _mask_of(env: gymnasium.Env, name: str, place: str, info: Mapping[str, Any]) -> np.ndarray | None:
    mask = env.get_wrapper_attr(place)() if place == _METHOD and env.has_wrapper_attr(place) else info.get(place)
    if mask is None:
        return None
    return _flags(np.concatenate([*_parts_of(mask, env.action_space)]), f"{name}: {place}")


def _parts_of(mask: Any, space: Any) -> Iterator[np.ndarray]:
    """The masks of choices, in their order: of a Dict they may be a dictionary, without what has no choices."""
    if isinstance(mask, Mapping):
        for key, own in space.items():
            yield from _parts_of(mask.get(key, ()), own)
    elif isinstance(mask, tuple | list):
        for own in mask:
            yield np.ravel(own)
    elif mask is not None:
        yield np.ravel(mask)


def _flags(mask: np.ndarray, subject: str) -> np.ndarray:
    """A mask as bool; raises CannotBuild unless it holds 0 and 1, or booleans."""
    legal = mask == 1
    if not (fine := legal | (mask == 0)).all():
        odd = mask[~fine][0]
        raise CannotBuild(f"{subject} must hold 1 for each legal action and 0 for the others, but holds {odd}")
    return legal


def named(observation: Any) -> dict[str, Any]:
    """The tensors of an observation, or its parts of a space, by name: an only one is called `observation`."""
    return dict(observation) if isinstance(observation, Mapping) else {"observation": observation}
