"""Checks that an environment's results match its spaces; a violation is one sentence that names the offending part."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from seed_rl.envs.base import CannotBuild, failure

_NO_NUMBER = ": a wrapper, such as MO-Gymnasium's LinearReward, makes a vector reward one number"


class Checked(gymnasium.Wrapper):
    """An environment whose results are checked against its spaces and whose errors are single sentences.

    `info` is dropped: nobody needs it, and merging it over all environments at every step would cost time. Every method
    raises

    - CannotBuild: a result is not what the environment declares;
    - EnvironmentFailed: the environment raised an error.
    """

    def __init__(self, env: gymnasium.Env, name: str):
        super().__init__(env)
        self._name = name
        for part in ("observation_space", "action_space"):
            if not isinstance(space := getattr(env, part, None), gymnasium.Space):
                raise self._wrong(part, "a space of Gymnasium", _described(space))

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Starts a new episode."""
        returned = self._call("reset", seed=seed, options=options)
        if not isinstance(returned, tuple) or len(returned) != 2:
            raise self._wrong("the result of reset", "(observation, info)", _described(returned))
        self._check("observation of reset", self.observation_space, returned[0])
        return returned[0], {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Takes a step."""
        returned = self._call("step", action)
        if not isinstance(returned, tuple) or len(returned) != 5:
            declared = "(observation, reward, terminated, truncated, info)"
            raise self._wrong("the result of step", declared, _described(returned))
        observation, reward, terminated, truncated, _ = returned
        self._check("observation", self.observation_space, observation)
        if not isinstance(reward, float):
            reward = self._scalar("reward", "a number", "fiub", reward)
        if type(terminated) is not bool or type(truncated) is not bool:
            terminated = self._scalar("terminated", "True or False", "iub", terminated)
            truncated = self._scalar("truncated", "True or False", "iub", truncated)
        return observation, float(reward), bool(terminated), bool(truncated), {}

    def render(self) -> Any:
        """Draws the current state."""
        return self._call("render")

    def _call(self, method: str, *arguments: Any, **options: Any) -> Any:
        try:
            return getattr(self.env, method)(*arguments, **options)
        except (Exception, SystemExit) as error:
            raise failure(f"{self._name} failed in {method}", error) from error

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

    def _scalar(self, part: str, declared: str, kinds: str, value: Any) -> Any:
        """The only element of a value whose dtype is one of these kinds."""
        array = _as_array(value)
        if array.size != 1 or array.dtype.kind not in kinds:
            remedy = _NO_NUMBER if part == "reward" and array.size > 1 else ""
            raise self._wrong(part, declared, _described(value) + remedy)
        return array.item()

    def _wrong(self, part: str, declared: str, came: str) -> CannotBuild:
        return CannotBuild(f"{self._name}: {part} is declared as {declared}, but came as {came}")


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


def _as_array(value: Any) -> np.ndarray:
    try:
        return np.asarray(value)
    except ValueError:  # lists of different lengths
        return np.array(None)
