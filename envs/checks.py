"""Checks that an environment's first results match its spaces; a violation is a sentence that names the wrong part."""

import contextlib
import copy
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from seed_rl.envs.base import CannotBuild, EnvironmentFailed, failure
from seed_rl.envs.vector.final import numbers_of
from seed_rl.foreign import described

_NO_NUMBER = ": Gym.wrappers = ('mo_gymnasium.wrappers:LinearReward',) makes it the mean, or another wrapper one number"


class Checked(gymnasium.Wrapper):
    """An environment whose first results are compared with its spaces, and whose errors name it.

    `info` has only `numbers_of` an episode that ends; merging more over all environments at every step would cost time.
    Methods raise CannotBuild for a result that is not what the environment declares, in the first reset and the first
    step, and EnvironmentFailed for any error of the environment.
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
                self.env.close()
                raise self._wrong(part, "a space of Gymnasium", _described(space))

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Starts a new episode."""
        try:
            returned = self.env.reset(seed=seed, options=options)
            if "reset" in self._unseen:
                self._unseen.remove("reset")
                if not isinstance(returned, tuple) or len(returned) != 2:
                    raise self._wrong("the result of reset", "(observation, info)", _described(returned))
                self._check("observation of reset", self.observation_space, returned[0])
            return returned[0], {}
        except (Exception, SystemExit) as error:
            raise failure(f"{self._name} failed in reset", error) from error

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Takes a step."""
        try:
            returned = self.env.step(action)
            if "step" in self._unseen:
                self._unseen.remove("step")
                self._check_step(returned)
            observation, reward, terminated, truncated, info = returned
            if not isinstance(reward, float):
                reward = float(np.asarray(reward).item())
            if not (terminated or truncated):
                return observation, reward, False, False, {}
            # A reset may write the next observation into this one.
            return copy.deepcopy(observation), reward, bool(terminated), bool(truncated), numbers_of(info)
        except (Exception, SystemExit) as error:
            raise failure(f"{self._name} failed in step", error) from error

    def render(self) -> Any:
        """Draws the current state."""
        try:
            return self.env.render()
        except (Exception, SystemExit) as error:
            raise failure(f"{self._name} failed in render", error) from error

    def _check_step(self, returned: Any) -> None:
        if not isinstance(returned, tuple) or len(returned) != 5:
            declared = "(observation, reward, terminated, truncated, info)"
            raise self._wrong("the result of step", declared, _described(returned))
        self._check("observation", self.observation_space, returned[0])
        self._check_scalar("reward", "a number", "fiub", returned[1])
        self._check_scalar("terminated", "True or False", "iub", returned[2])
        self._check_scalar("truncated", "True or False", "iub", returned[3])

    def _check(self, part: str, space: gymnasium.Space[Any], value: Any) -> None:
        """Raises CannotBuild unless a value has the structure, the shapes and the dtypes of a space."""
        if isinstance(space, spaces.Dict):
            if not isinstance(value, Mapping) or space.keys() - value.keys():
                raise self._wrong(part, f"a Dict of {', '.join(map(str, space))}", _described(value))
            for key, inner in space.items():
                self._check(f"{part} {key!r}", inner, value[key])
        elif isinstance(space, spaces.Tuple):
            if not isinstance(value, tuple | list) or len(value) != len(space):
                raise self._wrong(part, f"a Tuple of {len(space)}", _described(value))
            for index, inner in enumerate(space):
                self._check(f"{part} {index}", inner, value[index])
        elif space.shape is not None and space.dtype is not None:
            array = value if isinstance(value, np.ndarray) else _as_array(value)
            if array.shape != space.shape or not (
                array.dtype == space.dtype or np.can_cast(array.dtype, space.dtype, "same_kind")
            ):
                raise self._wrong(part, f"{space.dtype}{list(space.shape)}", _described(value))
            if not isinstance(space, spaces.Box) and not _is_within(space, array):
                raise self._wrong(part, str(space), f"{array.tolist()}"[:100])

    def _check_scalar(self, part: str, declared: str, kinds: str, value: Any) -> None:
        """Raises CannotBuild unless a value is a single element whose dtype is one of these kinds."""
        array = _as_array(value)
        if array.size != 1 or array.dtype.kind not in kinds:
            remedy = _NO_NUMBER if part == "reward" and array.size > 1 else ""
            raise self._wrong(part, declared, _described(value) + remedy)

    def _wrong(self, part: str, declared: str, came: str) -> CannotBuild:
        return CannotBuild(f"{self._name}: {part} is declared as {declared}, but came as {came}")


@contextlib.contextmanager
def sentences_of(env_id: str) -> Iterator[None]:
    """Turns errors of an environment's constructor, which may raise anything, into CannotBuild."""
    try:
        yield
    except (CannotBuild, EnvironmentFailed):
        raise
    except (Exception, SystemExit) as error:
        known = isinstance(error, gymnasium.error.Error | ImportError | TypeError)
        unknown = isinstance(error, gymnasium.error.UnregisteredEnv) and ":" not in env_id
        hint = "; an id of a package has its module in front, as in minigrid:MiniGrid-Empty-8x8-v0" if unknown else ""
        raise CannotBuild(f"{env_id} can't be made: {error if known else described(error)}{hint}") from error


def _described(value: Any) -> str:
    """Describes a value that an environment returned: its type, or dtype and shape."""
    if isinstance(value, np.ndarray | np.generic):
        return f"{value.dtype}{list(value.shape)}"
    if isinstance(value, Mapping):
        return f"a dict of {', '.join(map(str, value)) or 'nothing'}"
    if isinstance(value, tuple | list):
        return f"a {type(value).__name__} of {len(value)}: {', '.join(type(part).__name__ for part in value[:6])}"
    kind = type(value)
    name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    return "None" if value is None else f"{name} {value!r}"[:100]


def _is_within(space: gymnasium.Space[Any], choices: np.ndarray) -> bool:
    """Whether integers of the right shape are choices in a Discrete, MultiDiscrete or MultiBinary space."""
    counts: Any = getattr(space, "nvec", 2 if isinstance(space, spaces.MultiBinary) else getattr(space, "n", np.inf))
    choices = choices - getattr(space, "start", 0)
    return bool(((choices >= 0) & (choices < counts)).all())


def _as_array(value: Any) -> np.ndarray:
    try:
        return np.asarray(value)
    except ValueError:  # lists of different lengths
        return np.array(None)
