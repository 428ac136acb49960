"""What an environment suite is to the rest: a config that builds vector environments and describes itself."""

from __future__ import annotations

import abc
import dataclasses
from typing import Any, ClassVar

import gymnasium
import numpy as np
from gymnasium import spaces

from seed_rl.specs import ArraySpec, DiscreteSpec, EnvDescription, EnvSpec


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

    def describe(self) -> EnvDescription:
        """These settings as plain data."""
        options = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return EnvDescription(self.suite, {name: value for name, value in options.items() if value is not None})


def spec_of(env: gymnasium.vector.VectorEnv) -> EnvSpec:
    """The specs of one of a vector environment's environments.

    Raises:
      ValueError: a space of a kind that can't be sent; says which kinds can.
    """
    return EnvSpec(_observation_spec(env.single_observation_space), _action_spec(env.single_action_space))


def _observation_spec(space: gymnasium.Space[Any]) -> ArraySpec | dict[str, ArraySpec]:
    if isinstance(space, spaces.Box):
        return ArraySpec(tuple(int(n) for n in space.shape), np.dtype(space.dtype).name)
    raise ValueError(f"observations must be a Box, got {space}")


def _action_spec(space: gymnasium.Space[Any]) -> DiscreteSpec:
    if isinstance(space, spaces.Discrete) and space.start == 0:
        return DiscreteSpec(int(space.n))
    raise ValueError(f"actions must be Discrete and start at 0, got {space}")
