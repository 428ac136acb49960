"""Sentences for the mistakes and errors of other people's environments."""

import contextlib
import copy
import functools
from collections.abc import Callable, Iterator
from operator import getitem
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector.utils import concatenate, create_empty_array

from seed_rl.envs.base import CannotBuild, EnvironmentFailed, failure
from seed_rl.envs.spaces import leaves
from seed_rl.envs.vector.final import numbers_of
from seed_rl.envs.vector.masks import with_masks
from seed_rl.foreign import description_of, kind_of, short_repr

_CHOICES = (spaces.Discrete, spaces.MultiDiscrete, spaces.MultiBinary)
_NUMERIC = (spaces.Box, *_CHOICES)
_RESULTS = {"reset": ("observation", "info"), "step": ("observation", "reward", "terminated", "truncated", "info")}


class Checked(gymnasium.Wrapper):
    """An environment whose observations are compared with its space, later ones by shape, and whose errors name it.

    `info` has only `numbers_of` an episode that ends; merging more over all environments at every step would cost time.
    Methods raise CannotBuild if the observation of the first reset or step is not what the environment declares, and
    EnvironmentFailed if that of a later step isn't, and for any error of the environment.
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
        with self._naming_errors("reset"):
            self.env = with_masks(self.env, lambda env: self._whole("reset", env.reset())[1])
        parts = leaves(self.observation_space)
        self._shapes = [(part.path, part.space.shape) for part in parts if isinstance(part.space, _NUMERIC)]

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        with self._naming_errors("reset"):
            observation, _ = self._whole("reset", self.env.reset(seed=seed, options=options))
            self._check_first("reset", observation)
            if not self._has_shapes(observation):
                self._check("the observation of reset", self.observation_space, observation, EnvironmentFailed)
            return observation, {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        try:  # not by a context, which would slow down fast environments
            result = self.env.step(action)
            if "step" in self._unseen:
                self._check_first("step", self._whole("step", result)[0])
            observation, reward, terminated, truncated, info = result
            if not self._has_shapes(observation):
                self._check("the observation of step", self.observation_space, observation, EnvironmentFailed)
            if not isinstance(reward, float):
                reward = self._one_number(reward)
            if not (terminated or truncated):
                return observation, reward, False, False, {}
            # A reset may write the next observation into this one.
            return copy.deepcopy(observation), reward, bool(terminated), bool(truncated), numbers_of(info)
        except (Exception, SystemExit) as error:
            raise failure(f"{self._name} failed in step", error) from error

    def _one_number(self, reward: Any) -> float:
        try:
            return float(np.asarray(reward).item())
        except (TypeError, ValueError):
            came = short_repr(reward)
            if (count := np.size(reward)) > 1:
                came = f"{count}; games of several players belong to the suite PettingZoo: docs/guides/environment.md"
            raise EnvironmentFailed(f"{self._name}: the reward of step must be one number, got {came}") from None

    def _whole(self, what: str, result: Any) -> tuple[Any, ...]:
        if isinstance(result, tuple) and len(result) == len(_RESULTS[what]):
            return result
        came = f"a tuple of {len(result)}" if isinstance(result, tuple) else kind_of(result)
        remedy = "an environment of old Gym runs through Shimmy"
        kind = CannotBuild if what in self._unseen else EnvironmentFailed
        raise kind(f"{self._name}: {what} must return ({', '.join(_RESULTS[what])}), got {came}; {remedy}")

    def whose_turn(self) -> str:
        """The name of the environment, for messages."""
        return self._name

    def render(self) -> Any:
        with self._naming_errors("render"):
            return self.env.render()

    @contextlib.contextmanager
    def _naming_errors(self, what: str) -> Iterator[None]:
        try:
            yield
        except (Exception, SystemExit) as error:
            raise failure(f"{self._name} failed in {what}", error) from error

    def _has_shapes(self, observation: Any) -> bool:
        try:
            return all(np.shape(functools.reduce(getitem, path, observation)) == shape for path, shape in self._shapes)
        except (LookupError, TypeError, ValueError):  # of another structure
            return False

    def _check_first(self, what: str, observation: Any) -> None:
        if what in self._unseen:
            self._unseen.remove(what)
            self._check(f"the observation of {what}", self.observation_space, observation)

    def _check(self, part: str, space: gymnasium.Space[Any], value: Any, kind: type[Exception] = CannotBuild) -> None:
        """Raise an error unless Gymnasium can put a value into a batch, and a choice is one of its space."""
        inside: Any = space.items() if isinstance(space, spaces.Dict) else ()
        if isinstance(space, spaces.Tuple):
            inside = enumerate(space)
        try:
            parts = [(f"{part} {key!r}", own, value[key]) for key, own in inside]
            batch: Any = create_empty_array(space, 1)
            (batched,) = [None] if parts else concatenate(space, [value], batch)
            if not isinstance(space, _CHOICES) or space.contains(batched):
                for inner in parts:
                    self._check(*inner, kind)
                return
        except (LookupError, TypeError, ValueError):
            pass
        is_short = not isinstance(value, np.ndarray) or (value.shape == space.shape and value.size < 4)
        came = short_repr(value) if is_short else kind_of(value)
        raise kind(f"{self._name}: {part} is declared as {short_repr(space)}, but came as {came}")


@contextlib.contextmanager
def sentences_of(env_id: str) -> Iterator[None]:
    """Turn errors of an environment's constructor, which may raise anything, into CannotBuild."""
    try:
        yield
    except (CannotBuild, EnvironmentFailed):
        raise
    except (Exception, SystemExit) as error:
        known = isinstance(error, gymnasium.error.Error | ImportError | TypeError)
        unknown = isinstance(error, gymnasium.error.UnregisteredEnv)
        spec, hint = gymnasium.registry.get(env_id.rpartition(":")[2]), ""
        if spec is not None and spec.entry_point is None:
            hint = "; it has a vector version alone, which Gym.vectorization = 'vector_entry_point' takes"
        if unknown:
            if ":" not in env_id:
                hint = "; an id of a package has its module in front, as in minigrid:MiniGrid-Empty-8x8-v0"
            shimmy = f'Gym.id=shimmy:GymV26Environment-v0 with Gym.options={{"env_id": "{env_id}"}}'
            hint += f"; one of old Gym runs through Shimmy (pip install 'shimmy[gym-v26]'): {shimmy}"
        raise CannotBuild(f"{env_id} can't be made: {error if known else description_of(error)}{hint}") from error
