"""Sentences for the mistakes and errors of other people's environments."""

import contextlib
import copy
from collections.abc import Callable, Iterator
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector.utils import concatenate, create_empty_array

from seed_rl.envs.base import CannotBuild, EnvironmentFailed, failure
from seed_rl.envs.vector.final import numbers_of
from seed_rl.foreign import described, shortened

_CHOICES = (spaces.Discrete, spaces.MultiDiscrete, spaces.MultiBinary)


class Checked(gymnasium.Wrapper):
    """An environment whose first observations are compared with its space, and whose errors name it.

    `info` has only `numbers_of` an episode that ends; merging more over all environments at every step would cost time.
    Methods raise CannotBuild if the observation of the first reset or step is not what the environment declares, and
    EnvironmentFailed for any error of the environment.
    """

    def __init__(self, make: Callable[[], gymnasium.Env], name: str):
        """
        Args:
          make: builds the environment.
          name: name of the environment in messages.

        Raises:
          CannotBuild: raised by `make`, or the environment lacks a space.
        """
        super().__init__(make())
        self.metadata = self.env.metadata or {}  # some have None
        self._name = name
        self._unseen = {"reset", "step"}
        for part in ("observation_space", "action_space"):
            if not isinstance(space := getattr(self.env, part, None), gymnasium.Space):
                raise CannotBuild(f"{name}: {part} must be a space of Gymnasium, got {shortened(space)}")

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start a new episode."""
        try:
            observation, _ = self.env.reset(seed=seed, options=options)
            if "reset" in self._unseen:
                self._check_first("reset", observation)
            return observation, {}
        except (Exception, SystemExit) as error:
            raise failure(f"{self._name} failed in reset", error) from error

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Take a step."""
        try:
            observation, reward, terminated, truncated, info = self.env.step(action)
            if "step" in self._unseen:
                self._check_first("step", observation)
            if not isinstance(reward, float):
                reward = float(np.asarray(reward).item())
            if not (terminated or truncated):
                return observation, reward, False, False, {}
            # A reset may write the next observation into this one.
            return copy.deepcopy(observation), reward, bool(terminated), bool(truncated), numbers_of(info)
        except (Exception, SystemExit) as error:
            raise failure(f"{self._name} failed in step", error) from error

    def render(self) -> Any:
        """Draw the current state."""
        try:
            return self.env.render()
        except (Exception, SystemExit) as error:
            raise failure(f"{self._name} failed in render", error) from error

    def _check_first(self, what: str, observation: Any) -> None:
        self._unseen.remove(what)
        self._check(f"the observation of {what}", self.observation_space, observation)

    def _check(self, part: str, space: gymnasium.Space[Any], value: Any) -> None:
        """Raise CannotBuild unless Gymnasium can put a value into a batch, and a choice is one of its space."""
        inside: Any = space.items() if isinstance(space, spaces.Dict) else ()
        if isinstance(space, spaces.Tuple):
            inside = enumerate(space)
        batch: Any = create_empty_array(space, 1)
        try:
            parts = [(f"{part} {key!r}", own, value[key]) for key, own in inside]
            (batched,) = [None] if parts else concatenate(space, [value], batch)
            is_wrong = isinstance(space, _CHOICES) and not space.contains(batched)
        except (LookupError, TypeError, ValueError):
            is_wrong = True
        if is_wrong:
            is_long = isinstance(value, np.ndarray) and value.size > 3
            came = f"{value.dtype}{list(value.shape)}" if is_long else shortened(value)
            raise CannotBuild(f"{self._name}: {part} is declared as {shortened(space)}, but came as {came}")
        for inner in parts:
            self._check(*inner)


@contextlib.contextmanager
def sentences_of(env_id: str) -> Iterator[None]:
    """Turn errors of an environment's constructor, which may raise anything, into CannotBuild."""
    try:
        yield
    except (CannotBuild, EnvironmentFailed):
        raise
    except (Exception, SystemExit) as error:
        known = isinstance(error, gymnasium.error.Error | ImportError | TypeError)
        unknown = isinstance(error, gymnasium.error.UnregisteredEnv) and ":" not in env_id
        hint = "; an id of a package has its module in front, as in minigrid:MiniGrid-Empty-8x8-v0" if unknown else ""
        raise CannotBuild(f"{env_id} can't be made: {error if known else described(error)}{hint}") from error
