"""The interface of environment suites: a config that builds vector environments and describes itself."""

from __future__ import annotations

import abc
import contextlib
import dataclasses
import importlib.util
import sys
from collections.abc import Callable
from typing import Any, ClassVar

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv, VectorWrapper
from gymnasium.vector.utils import batch_space

from seed_rl.envs.spaces import action_spec, observation_spec, tensors_of
from seed_rl.errors import Failure, UsageError
from seed_rl.foreign import description_of
from seed_rl.settings import Settings
from seed_rl.specs import LEGAL_ACTIONS, ActionSpec, ContinuousSpec, EnvDescription, EnvSpec, MixedSpec, choices_of


class CannotBuild(UsageError):
    """Environments can't be built on this machine; the message gives the reason."""


class EnvironmentFailed(Failure):
    """An environment raised an error, or its process died; the message names the environment and the cause."""


def failure(
    subject: str, error: BaseException, kind: type[CannotBuild | EnvironmentFailed] = EnvironmentFailed
) -> CannotBuild | EnvironmentFailed:
    """Turn an environment's error into one line that begins with a subject like "Pong-v5 failed in step"."""
    return error if isinstance(error, CannotBuild | EnvironmentFailed) else kind(f"{subject}: {description_of(error)}")


@dataclasses.dataclass(frozen=True)
class EnvConfig(Settings, abc.ABC):
    """Settings of a suite's environments, validated on construction.

    Fields are scalars or tuples of scalars, which are sent to the actors as an `EnvDescription`. Actors find a subclass
    by its `suite` name (see `registry`) and import it without TensorFlow.
    """

    suite: ClassVar[str]
    task_setting: ClassVar[str] = ""
    """The setting that names the task (a game, a level), if the suite has several."""
    repeatable: ClassVar[bool] = True
    """Whether the same seed and actions give the same episodes, in any process and whatever was played before."""

    @classmethod
    def tasks(cls) -> list[str]:
        """The known values of `task_setting`; empty without one."""
        return []

    @property
    def title(self) -> str:
        """A name for messages, such as `an environment of suite 'gym' (CartPole-v1)`."""
        task = f" ({getattr(self, self.task_setting)})" if self.task_setting else ""
        return f"an environment of suite {self.suite!r}{task}"

    @property
    def packages(self) -> dict[str, str]:
        """Modules that `make` needs beyond this package's dependencies, and how to install each."""
        return {}

    def check_packages(self) -> None:
        """Raise CannotBuild unless the `packages` are installed; they are not imported."""
        for module, remedy in self.packages.items():
            if module not in sys.modules and importlib.util.find_spec(module) is None:
                raise CannotBuild(f"{type(self).__name__} needs {module}, which is not installed here: {remedy}")

    @property
    def action_repeat(self) -> int:
        """Environment frames per agent step."""
        return 1

    @property
    def players(self) -> int:
        """P: number of players of a game; each is a row, with its own observation, action and reward. Otherwise 1.

        Row i is player i mod P of game i // P. A game's rows end together. Each episode draws the players' seats anew.
        """
        return 1

    @property
    def home_players(self) -> int:
        """Number of players of a game on the home side, whose rows are the first; the others are opponents."""
        return 1

    def check_rows(self, name: str, rows: int) -> None:
        """Raise CannotBuild unless a number of rows, given by the setting `name`, is that of whole games."""
        if rows % self.players:
            kind = f"the number of players in {self.title} ({self.players})"
            raise CannotBuild(f"{name} must be a multiple of {kind}, got {rows}")

    @property
    def modules(self) -> tuple[str, ...]:
        """Modules that the settings name and `make` loads.

        A process that gets its settings from others, such as an actor, loads them only with `--import_module`.
        """
        return ()

    @abc.abstractmethod
    def make(self, num_envs: int) -> VectorEnv:
        """Build `num_envs` environments, or rows of `players`, with spaces as in `spec`, that reset themselves.

        Their metadata declare SAME_STEP or NEXT_STEP autoreset.
        """

    def spec(self) -> EnvSpec:
        """Observations and actions of one environment or player; by default, builds one to find out."""
        with contextlib.closing(self.make(self.players)) as env:
            return spec_of(env)

    def human_normalised(self, mean_return: float) -> float | None:
        """Convert a mean return to percent, where 0 is a random policy and 100 a human; None without references."""
        return None

    @property
    def reward_threshold(self) -> float | None:
        """The mean return from which the task counts as solved; None if there is none."""
        return None

    def watch(self) -> Watchable:
        """Build one environment that can be filmed, by default its observations, or raise CannotBuild."""
        return watch_observations(self.make(self.players))

    def describe(self) -> EnvDescription:
        """These settings as plain data."""
        options = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        for field in dataclasses.fields(self):
            if options[field.name] is None and field.default is not None:  # others would take the default
                raise ValueError(f"{type(self).__name__}.{field.name} can only be None by default")
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


class Watchable(VectorWrapper):
    """A vector environment of size 1, or of one game, that can draw its current state.

    Drawing has no side effects: the same seed and actions give the same episodes with and without it.
    """

    def __init__(self, env: VectorEnv, picture: Callable[[Any], np.ndarray]):
        """`picture` draws the current state, given its observation [1 or P, ...], as uint8 [H, W, 3], of one size."""
        super().__init__(env)
        self.picture = picture


def watch_observations(env: VectorEnv) -> Watchable:
    """Draw the first tensor in observations that is a picture, in a game the first player's, or raise CannotBuild."""
    parts = tensors_of(env.single_observation_space)
    found = (n for n, p in parts.items() if p.dtype == np.uint8 and len(p.shape) == 3 and p.shape[2] in (1, 3))
    if (name := next(found, None)) is None:
        kinds = "pictures are uint8 [H, W, 1 or 3]"
        raise CannotBuild(f"there is nothing to draw: {kinds}, observations are {env.single_observation_space}")
    size = (*parts[name].shape[:2], 3)
    return Watchable(env, lambda observation: np.broadcast_to(tensors_of(observation)[name][0], size))


def autoreset_mode(env: VectorEnv, name: str = "a vector environment") -> AutoresetMode:
    """How environments reset themselves, SAME_STEP or NEXT_STEP; raises CannotBuild unless they declare one of them."""
    mode = (env.metadata or {}).get("autoreset_mode")
    if mode not in (AutoresetMode.SAME_STEP, AutoresetMode.NEXT_STEP):
        line = 'metadata = {"autoreset_mode": gymnasium.vector.AutoresetMode.SAME_STEP}'
        raise CannotBuild(
            f"{name} must declare how it resets its environments, got autoreset mode {mode}: its class needs the line "
            f"`{line}` if the step that ends an episode returns the first observation of the next one, else NEXT_STEP"
        )
    return mode


def spec_of(env: VectorEnv) -> EnvSpec:
    """The spec of a single environment in a vector environment; raises CannotBuild if its spaces can't be sent."""
    try:
        return EnvSpec(observation_spec(env.single_observation_space), action_spec(env.single_action_space))
    except ValueError as error:
        raise CannotBuild(str(error)) from error


def legal_actions(spec: EnvSpec, observation: Any) -> np.ndarray | None:
    """Unpacks the action masks in observations [E, ...] to bool [E, N]; None if all actions are always legal."""
    if not spec.has_mask:
        return None
    count = sum(choices_of(spec.action))
    return np.unpackbits(observation[LEGAL_ACTIONS], axis=1, count=count, bitorder="little").astype(bool)


def random_actions(
    spec: ActionSpec, rng: np.random.Generator, num_envs: int, legal: np.ndarray | None = None
) -> np.ndarray:
    """Draws uniformly random actions [num_envs, ...], if `legal`, bool [num_envs, N], is given among the legal ones."""
    shape = (num_envs, *spec.tensor.shape)
    if isinstance(spec, MixedSpec):
        parts = random_actions(spec.choices, rng, num_envs, legal), random_actions(spec.numbers, rng, num_envs)
        return np.concatenate(parts, axis=1, dtype=np.float32)
    if legal is not None:
        scores = np.split(rng.random(legal.shape) * legal, np.cumsum(choices_of(spec))[:-1], axis=1)
        return np.stack([own.argmax(axis=1) for own in scores], axis=1).astype(np.int32).reshape(shape)
    if isinstance(spec, ContinuousSpec):
        return rng.uniform(spec.low, spec.high, shape).astype(np.float32)
    return rng.integers(spec.n, size=shape).astype(np.int32)
