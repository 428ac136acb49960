"""Sentences for the mistakes and errors of other people's environments."""

import contextlib
import copy
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector.utils import concatenate, create_empty_array

from seed_rl.envs.base import CannotBuild, EnvironmentFailed, failure
from seed_rl.envs.spaces import leaves, tensors_of
from seed_rl.envs.vector.final import numbers_of
from seed_rl.envs.vector.wrappers import MASK, fitting
from seed_rl.foreign import description_of, kind_of, short_repr

_CHOICES = (spaces.Discrete, spaces.MultiDiscrete, spaces.MultiBinary)
_RESULTS = {"reset": ("observation", "info"), "step": ("observation", "reward", "terminated", "truncated", "info")}


class Checked(gymnasium.Wrapper):
    """An environment whose observations are compared with its space, and whose errors name it.

    Later observations are compared by shape, and integers by dtype.

    Action masks for choices, which `info` has, as in Gymnasium's own environments, or a method `action_masks()` gives,
    as for MaskablePPO, become a part `action_mask` of the observations. `info` has only `numbers_of` an episode that
    ends; merging more over all environments at every step would cost time.

    Methods raise CannotBuild if the first result of reset or step is not what the environment declares, and
    EnvironmentFailed if a later one isn't, and for any error of the environment.
    """

    def __init__(self, make: Callable[[], gymnasium.Env], name: str):
        """`make` builds the environment, which is called `name` in messages; raises its errors, or CannotBuild."""
        super().__init__(make())
        self.metadata = self.env.metadata or {}  # some have None
        self._name = name
        self._unseen = {"reset", "step"}
        for part in ("observation_space", "action_space"):
            if not isinstance(space := getattr(self.env, part, None), gymnasium.Space):
                raise CannotBuild(f"{name}: {part} must be a space of Gymnasium, got {short_repr(space)}")
        self._adds_mask = False
        parts = tensors_of(self.observation_space)
        if MASK not in parts and isinstance(self.action_space, spaces.Discrete | spaces.MultiDiscrete):
            with self._naming_errors("reset"):
                mask = self._mask(self._whole("reset", self.env.reset())[1])
            if mask is not None:
                self._adds_mask = True
                self.observation_space = spaces.Dict(parts | {MASK: spaces.Box(0, 1, mask.shape, np.int8)})
        self._leaves = list(leaves(self.observation_space))
        self._numeric = [leaf for leaf in self._leaves if isinstance(leaf.space, (spaces.Box, *_CHOICES))]

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        with self._naming_errors("reset"):
            observation, info = self._whole("reset", self.env.reset(seed=seed, options=options))
            return self._checked("reset", observation, info), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        try:  # not by a context, which would slow down fast environments
            observation, reward, terminated, truncated, info = self._whole("step", self.env.step(action))
            ended = bool(terminated or truncated)
            observation = self._checked("step", observation, info, ended)
            if not isinstance(reward, float):
                reward = self._one_number(reward)
            if not ended:
                return observation, reward, False, False, {}
            # A reset may write the next observation into this one.
            return copy.deepcopy(observation), reward, bool(terminated), bool(truncated), numbers_of(info)
        except (Exception, SystemExit) as error:
            raise failure(f"{self._name} failed in step", error) from error

    def render(self) -> Any:
        with self._naming_errors("render"):
            return self.env.render()

    def whose_turn(self) -> str:
        """The name of the environment, for messages."""
        return self._name

    @contextlib.contextmanager
    def _naming_errors(self, what: str) -> Iterator[None]:
        try:
            yield
        except (Exception, SystemExit) as error:
            raise failure(f"{self._name} failed in {what}", error) from error

    def _kind(self, what: str) -> type[CannotBuild | EnvironmentFailed]:
        return CannotBuild if what in self._unseen else EnvironmentFailed

    def _whole(self, what: str, result: Any) -> tuple[Any, ...]:
        if isinstance(result, tuple) and len(result) == len(_RESULTS[what]):
            return result
        came = f"a tuple of {len(result)}" if isinstance(result, tuple) else kind_of(result)
        wanted = f"{what} must return ({', '.join(_RESULTS[what])})"
        raise self._kind(what)(f"{self._name}: {wanted}, got {came}; an environment of old Gym runs through Shimmy")

    def _mask(self, info: Any) -> np.ndarray | None:
        """The current action mask, int8 [N], from an array or one for each choice; None if there is none."""
        if self.env.has_wrapper_attr("action_masks"):
            mask = self.env.get_wrapper_attr("action_masks")()
        else:
            mask = info.get(MASK) if isinstance(info, Mapping) else None
        return None if mask is None else np.concatenate([np.ravel(own) == 1 for own in mask]).astype(np.int8)

    def _checked(self, what: str, observation: Any, info: Any, ended: bool = False) -> Any:
        """The observation with its action mask, or an error if Gymnasium can't put it into a batch."""
        if self._adds_mask:
            if (mask := self._mask(info)) is None:
                if not ended:
                    raise ValueError(f"info must have an {MASK} in every step, as in the first reset, got none")
                mask = np.zeros(self.observation_space[MASK].shape, np.int8)  # type: ignore[index]
            observation = tensors_of(observation) | {MASK: mask}
        if what in self._unseen or not self._has_shapes(observation):
            self._check(what, observation)
            self._unseen.discard(what)
        return observation

    def _has_shapes(self, observation: Any) -> bool:
        try:
            return all(_is_plain(leaf.of(observation), leaf.space) for leaf in self._numeric)
        except (LookupError, TypeError, ValueError):  # of another structure
            return False

    def _check(self, what: str, observation: Any) -> None:
        for _, space, path in self._leaves:
            part = " ".join([f"{self._name}: the observation of {what}", *map(repr, path)])
            declared = f"{part} is declared as {short_repr(space)}, but"
            value = observation
            for key in path:
                try:
                    value = value[key]
                except (LookupError, TypeError):
                    raise self._kind(what)(f"{declared} {key!r} is missing in {kind_of(value)}") from None
            with contextlib.suppress(LookupError, TypeError, ValueError):
                batch: Any = create_empty_array(space, 1)
                concatenate(space, [value], batch)
                if not isinstance(space, (spaces.Box, *_CHOICES)) or fitting(space, np.asarray(value)).all():
                    continue
            is_short = not isinstance(value, np.ndarray) or (value.shape == space.shape and value.size < 4)
            raise self._kind(what)(f"{declared} came as {short_repr(value) if is_short else kind_of(value)}")

    def _one_number(self, reward: Any) -> float:
        try:
            return float(np.asarray(reward).item())
        except (TypeError, ValueError):
            came = short_repr(reward)
            if (count := np.size(reward)) > 1:
                came = f"{count}; games of several players belong to the suite PettingZoo: docs/guides/environment.md"
            raise EnvironmentFailed(f"{self._name}: the reward of step must be one number, got {came}") from None


def _is_plain(value: Any, space: Any) -> bool:
    """Whether a value has the shape of its space, and needs no other look: a batch of integers could wrap it."""
    is_exact = space.dtype.kind == "f" or isinstance(space, _CHOICES) or getattr(value, "dtype", None) == space.dtype
    return is_exact and np.shape(value) == space.shape


@contextlib.contextmanager
def sentences_of(env_id: str) -> Iterator[None]:
    """Turn errors of an environment's constructor, which may raise anything, into CannotBuild."""
    try:
        yield
    except (CannotBuild, EnvironmentFailed):
        raise
    except (Exception, SystemExit) as error:
        known = isinstance(error, gymnasium.error.Error | ImportError | TypeError)
        spec, hint = gymnasium.registry.get(env_id.rpartition(":")[2]), ""
        if spec is not None and spec.entry_point is None:
            hint = "; it has a vector version alone, which Gym.vectorization = 'vector_entry_point' takes"
        if isinstance(error, gymnasium.error.UnregisteredEnv):
            if ":" not in env_id:
                hint = "; an id of a package has its module in front, as in minigrid:MiniGrid-Empty-8x8-v0"
            shimmy = f'Gym.id=shimmy:GymV26Environment-v0 with Gym.options={{"env_id": "{env_id}"}}'
            hint += f"; one of old Gym runs through Shimmy (pip install 'shimmy[gym-v26]'): {shimmy}"
        raise CannotBuild(f"{env_id} can't be made: {error if known else description_of(error)}{hint}") from error
