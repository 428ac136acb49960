"""The interface of an environment suite: a config that builds vector environments and describes itself."""

from __future__ import annotations

import abc
import contextlib
import csv
import dataclasses
import importlib.util
import pathlib
import sys
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv, VectorWrapper
from gymnasium.vector.utils import batch_space

from seed_rl.foreign import described
from seed_rl.settings import Settings
from seed_rl.specs import (
    ActionSpec,
    ArraySpec,
    ContinuousSpec,
    DiscreteSpec,
    EnvDescription,
    EnvSpec,
    MultiDiscreteSpec,
)
from seed_rl.types import EnvOutput


class CannotBuild(ValueError):
    """The environments can't be built on this machine; the message gives the reason."""


class EnvironmentFailed(RuntimeError):
    """An environment raised an error or its process died; the message names the environment and the cause."""


def failure(subject: str, error: BaseException) -> CannotBuild | EnvironmentFailed:
    """What an environment raised, as an error of one sentence about a subject, such as "Pong-v5 failed in step"."""
    if isinstance(error, CannotBuild | EnvironmentFailed):
        return error
    return EnvironmentFailed(f"{subject}: {described(error)}")


class Reference(NamedTuple):
    """Mean unclipped returns in one game or level."""

    random: float
    human: float

    def normalise(self, mean_return: float) -> float:
        """100 * (mean return - random) / (human - random), percent."""
        return 100 * (mean_return - self.random) / (self.human - self.random)


def read_references(path: pathlib.Path) -> dict[str, Reference]:
    """Reads a CSV file with the columns `name,random,human`; keeps the order of its rows."""
    with path.open(encoding="utf-8", newline="") as file:
        return {row["name"]: Reference(float(row["random"]), float(row["human"])) for row in csv.DictReader(file)}


@dataclasses.dataclass(frozen=True)
class EnvConfig(Settings, abc.ABC):
    """Settings of a suite's environments, checked on construction.

    Fields are scalars or tuples of scalars: they travel to the actors as an `EnvDescription`. Actors find a subclass by
    its `suite` name (see `registry`) and import it without TensorFlow.
    """

    suite: ClassVar[str]
    task_setting: ClassVar[str] = ""
    """The setting that names a task (a game, a level), where the suite has several."""
    places_written: ClassVar[tuple[str, ...]] = ()
    """Settings that name places to write to. Who rebuilds the environments of a recorded run leaves them out."""

    @classmethod
    def tasks(cls) -> list[str]:
        """The values of `task_setting` that are known; empty without one."""
        return []

    @property
    def title(self) -> str:
        """Such as `an environment of suite 'gym' (CartPole-v1)`."""
        task = f" ({getattr(self, self.task_setting)})" if self.task_setting else ""
        return f"an environment of suite {self.suite!r}{task}"

    @property
    def packages(self) -> dict[str, str]:
        """Modules that `make` needs and that this package does not depend on; for each, how to install it."""
        return {}

    def check_packages(self) -> None:
        """Finds out whether the `packages` are installed, without importing them.

        Raises:
          CannotBuild: one is not.
        """
        for module, remedy in self.packages.items():
            if module not in sys.modules and importlib.util.find_spec(module) is None:
                raise CannotBuild(f"{type(self).__name__} needs {module}, which is not installed here: {remedy}")

    @property
    def action_repeat(self) -> int:
        """Environment frames per agent step."""
        return 1

    @property
    def modules(self) -> tuple[str, ...]:
        """Modules, or directories of native code, named in the settings, which `make` loads.

        Who takes the settings from others, an actor or a reader of a run, must permit them with `--import_module`.
        """
        return ()

    @abc.abstractmethod
    def make(self, num_envs: int) -> VectorEnv:
        """Builds `num_envs` environments with SAME_STEP autoreset, whose spaces match `spec`."""

    def spec(self) -> EnvSpec:
        """Observations and actions of one environment; the default builds one to find out."""
        with contextlib.closing(self.make(1)) as env:
            return spec_of(env)

    def human_normalised(self, mean_return: float) -> float | None:
        """A mean return in percent: 0 is a random policy, 100 a human. None without published references."""
        return None

    def watch(self) -> Watchable:
        """One environment that can be filmed; by default its observations are the pictures.

        Raises:
          CannotBuild: there is nothing to see.
        """
        return ObservationPictures(self.make(1))

    def describe(self) -> EnvDescription:
        """These settings as plain data."""
        options = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return EnvDescription(self.suite, {name: value for name, value in options.items() if value is not None})


class UniformVectorEnv(VectorEnv):
    """A base class for vector environments, constructed from the spaces of a single environment."""

    def __init__(
        self,
        num_envs: int,
        observation_space: gymnasium.Space[Any],
        action_space: gymnasium.Space[Any],
        autoreset_mode: AutoresetMode = AutoresetMode.SAME_STEP,
    ):
        self.num_envs = num_envs
        self.metadata = {"autoreset_mode": autoreset_mode}
        self.single_observation_space, self.single_action_space = observation_space, action_space
        self.observation_space = batch_space(observation_space, num_envs)
        self.action_space = batch_space(action_space, num_envs)


class Watchable(VectorWrapper, abc.ABC):
    """A vector environment of size 1 that draws its current state.

    Drawing has no side effects: the same seed and actions give the same episodes as without it.
    """

    @abc.abstractmethod
    def picture(self, observation: Any) -> np.ndarray:
        """Draws the current state.

        Args:
          observation: its latest observation [1, ...].

        Returns:
          uint8 [H, W, 3]; the size never changes.
        """


class ObservationPictures(Watchable):
    """Draws the observation, or the first of its tensors that is a picture."""

    def __init__(self, env: VectorEnv, to_colours: Callable[[np.ndarray], np.ndarray] | None = None):
        """
        Args:
          env: of size 1.
          to_colours: converts the tensor of one environment to uint8 [H, W, 3]; by default uint8 [H, W, 1 or 3] is
            drawn unchanged.

        Raises:
          CannotBuild: no tensor of the observation is a picture; `env` is closed.
        """
        super().__init__(env)
        space = env.single_observation_space
        parts = dict(space.items()) if isinstance(space, spaces.Dict) else {"": space}
        names = [name for name, part in parts.items() if to_colours is not None or _is_picture(part)]
        if not names:
            env.close()
            raise CannotBuild(f"there is nothing to see: a picture is uint8 [H, W, 1 or 3], observations are {space}")
        self._name = names[0]
        self._to_colours = to_colours or (lambda frame: np.broadcast_to(frame, (*frame.shape[:2], 3)))

    def picture(self, observation: Any) -> np.ndarray:
        tensor = observation[self._name] if self._name else observation
        return self._to_colours(np.asarray(tensor[0]))


def reset(env: VectorEnv, seed: int | None) -> EnvOutput:
    """Begins a run of B environments; its first output says that an episode begins in each."""
    observation, _ = env.reset(seed=seed)
    nowhere = np.zeros(env.num_envs, bool)
    return EnvOutput(np.zeros(env.num_envs, np.float32), ~nowhere, nowhere, observation)


def step(env: VectorEnv, actions: np.ndarray) -> EnvOutput:
    """Steps B environments with SAME_STEP autoreset, without the last observations of truncated episodes."""
    observation, reward, terminated, truncated, _ = env.step(actions)
    done = terminated | truncated
    return EnvOutput(np.asarray(reward, np.float32), done, np.zeros_like(done), observation)


def spec_of(env: VectorEnv) -> EnvSpec:
    """The specs of a single environment of a vector environment.

    Raises:
      CannotBuild: a space can't be sent; the message lists the kinds that can.
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
    raise ValueError(f"observations must be a Box or a Dict of them (FlatVectorEnv converts others), got {space}")


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


def _is_picture(space: gymnasium.Space[Any]) -> bool:
    shape = space.shape or ()
    return space.dtype == np.uint8 and len(shape) == 3 and shape[-1] in (1, 3)
