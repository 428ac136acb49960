"""What an environment suite is to the rest: a config that builds vector environments and describes itself."""

from __future__ import annotations

import abc
import dataclasses
from typing import Any, ClassVar

import gymnasium
import numpy as np
from gymnasium import spaces

from seed_rl.envs.errors import CannotBuild
from seed_rl.envs.pictures import ObservationPictures, Watchable
from seed_rl.specs import (
    ActionSpec,
    ArraySpec,
    ContinuousSpec,
    DiscreteSpec,
    EnvDescription,
    EnvSpec,
    MultiDiscreteSpec,
)


@dataclasses.dataclass(frozen=True)
class EnvConfig(abc.ABC):
    """Settings of a suite's environments, checked on construction.

    Fields are scalars or tuples of scalars: they travel to the actors as an `EnvDescription`. A subclass is known to
    actors by its `suite` name (see `registry`) and must be importable without TensorFlow.
    """

    suite: ClassVar[str]

    @property
    @abc.abstractmethod
    def action_repeat(self) -> int:
        """Environment frames per agent step."""

    @abc.abstractmethod
    def spec(self) -> EnvSpec:
        """What one environment takes and gives, found without starting one where that is possible."""

    @abc.abstractmethod
    def make(self, num_envs: int) -> gymnasium.vector.VectorEnv:
        """Builds `num_envs` environments with SAME_STEP autoreset and spaces as `spec` says."""

    def human_normalised(self, mean_return: float) -> float | None:
        """A mean return as a score, percent: 0 is a random policy, 100 a person. None where no references are known."""
        return None

    def watch(self) -> Watchable:
        """One environment with pictures for people; by default they show its observations.

        Raises:
          CannotBuild: there is nothing to see.
        """
        return ObservationPictures(self.make(1))

    def describe(self) -> EnvDescription:
        """These settings as plain data."""
        options = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return EnvDescription(self.suite, {name: value for name, value in options.items() if value is not None})


def spec_of(env: gymnasium.vector.VectorEnv) -> EnvSpec:
    """The specs of one of a vector environment's environments.

    Raises:
      CannotBuild: a space of a kind that can't be sent; says which kinds can.
    """
    try:
        return EnvSpec(_observation_spec(env.single_observation_space), _action_spec(env.single_action_space))
    except ValueError as error:
        raise CannotBuild(str(error)) from error


def random_actions(spec: ActionSpec, rng: np.random.Generator, num_envs: int) -> np.ndarray:
    """Uniformly random actions [num_envs, ...]."""
    shape = (num_envs, *spec.tensor.shape)
    if isinstance(spec, ContinuousSpec):
        return rng.uniform(spec.low, spec.high, shape).astype(np.float32)
    return rng.integers(spec.n, size=shape).astype(np.int32)


def _observation_spec(space: gymnasium.Space[Any]) -> ArraySpec | dict[str, ArraySpec]:
    if isinstance(space, spaces.Box):
        return _array_spec(space)
    if isinstance(space, spaces.Dict) and all(isinstance(part, spaces.Box) for part in space.values()):
        return {name: _array_spec(part) for name, part in space.items()}
    raise ValueError(f"observations must be a Box or a Dict of them (FlatVectorEnv makes them so), got {space}")


def _array_spec(space: gymnasium.Space[Any]) -> ArraySpec:
    assert space.shape is not None
    return ArraySpec(tuple(int(n) for n in space.shape), np.dtype(space.dtype).name)


def _action_spec(space: gymnasium.Space[Any]) -> ActionSpec:
    if isinstance(space, spaces.Discrete) and space.start == 0:
        return DiscreteSpec(int(space.n))
    if isinstance(space, spaces.MultiDiscrete) and len(space.shape) == 1 and not np.any(space.start):
        return MultiDiscreteSpec(tuple(int(n) for n in space.nvec))
    if isinstance(space, spaces.Box) and len(space.shape) == 1 and space.dtype == np.float32:
        try:
            return ContinuousSpec(tuple(space.low.tolist()), tuple(space.high.tolist()))
        except ValueError as error:
            raise ValueError(f"actions can't be those of {space}: {error}") from error
    raise ValueError(
        f"actions must be Discrete or MultiDiscrete [K] and start at 0, or a bounded float32 Box [K], got {space}"
    )
