"""Checks that an environment's results match its spaces; a violation is one sentence that names the offending part."""

import contextlib
import copy
import dataclasses
import logging
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from seed_rl.envs.base import CannotBuild, EnvironmentFailed, failure
from seed_rl.envs.vector.final import RESTARTS, numbers_of
from seed_rl.foreign import described

_log = logging.getLogger(__name__)

_NO_NUMBER = ": Gym.wrappers = ('mo_gymnasium.wrappers:LinearReward',) makes it the mean, or another wrapper one number"


@dataclasses.dataclass
class Tolerance:
    """Counts the errors of a group of environments, up to a share of their episodes."""

    failing_episodes: float
    """Share of the episodes in which an error may occur; one is allowed from the first end of an episode on."""
    finished: int = 0
    """Number of episodes that have ended."""
    errors: int = 0

    @property
    def is_exceeded(self) -> bool:
        """Whether there were too many errors."""
        share = self.failing_episodes
        return not (share and self.finished) or self.errors > max(1, share * self.finished)


class Checked(gymnasium.Wrapper):
    """An environment whose results are checked against its spaces, and which restarts after an error.

    After an error in `reset` or `step`, which is logged, the environment is rebuilt, with a seed that follows from its
    last seed and the number of restarts since. An error is also a result that is not what the environment declares. An
    episode that it interrupted is truncated: the step that failed leads to the observation before it, without a reward.
    `info` has only `numbers_of` an episode that ends, with the number of restarts; merging more over all environments
    at every step would cost time. If the `Tolerance` is exceeded, methods raise

    - CannotBuild: a result is not what the environment declares, and no episode of the group has ended;
    - EnvironmentFailed: any other error.
    """

    def __init__(self, make: Callable[[], gymnasium.Env], name: str, tolerance: Tolerance):
        """
        Args:
          make: builds the environment.
          name: name of the environment in messages.
          tolerance: shared with the other environments of the group.

        Raises:
          CannotBuild: raised by `make`, or the environment lacks a space.
        """
        super().__init__(make())
        self.metadata = self.env.metadata or {}  # some have None
        self._make, self._name, self._tolerance = make, name, tolerance
        self._restarts = 0  # since the last end of an episode
        self._seeds: np.random.SeedSequence | None = None  # of the environments that are rebuilt
        self._next_seed: int | None = None  # of an environment that has just been rebuilt
        self._observation: Any = None
        for part in ("observation_space", "action_space"):
            if not isinstance(space := getattr(self.env, part, None), gymnasium.Space):
                self.env.close()
                raise self._wrong(part, "a space of Gymnasium", _described(space))

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Starts a new episode."""
        if seed is not None:
            self._seeds = np.random.SeedSequence(seed)
        while True:
            try:
                returned = self.env.reset(seed=self._next_seed if seed is None else seed, options=options)
                if not isinstance(returned, tuple) or len(returned) != 2:
                    raise self._wrong("the result of reset", "(observation, info)", _described(returned))
                self._check("observation of reset", self.observation_space, returned[0])
                break
            except (Exception, SystemExit) as error:
                self._restart("reset", error)
        self._next_seed = None
        self._observation = returned[0]
        return returned[0], {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Takes a step."""
        try:
            return self._checked(self.env.step(action))
        except (Exception, SystemExit) as error:
            self._restart("step", error)
            return self._observation, 0.0, False, True, self._final({})

    def _checked(self, returned: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """The result of a step; raises CannotBuild unless it is what the environment declares."""
        if not isinstance(returned, tuple) or len(returned) != 5:
            declared = "(observation, reward, terminated, truncated, info)"
            raise self._wrong("the result of step", declared, _described(returned))
        observation, reward, terminated, truncated, info = returned
        self._check("observation", self.observation_space, observation)
        if not isinstance(reward, float):
            reward = self._scalar("reward", "a number", "fiub", reward)
        if type(terminated) is not bool or type(truncated) is not bool:
            terminated = self._scalar("terminated", "True or False", "iub", terminated)
            truncated = self._scalar("truncated", "True or False", "iub", truncated)
        self._observation = observation
        if not (terminated or truncated):
            return observation, float(reward), False, False, {}
        # A reset may write the next observation into this one.
        return copy.deepcopy(observation), float(reward), bool(terminated), bool(truncated), self._final(info)

    def render(self) -> Any:
        """Draws the current state."""
        try:
            return self.env.render()
        except (Exception, SystemExit) as error:
            raise failure(f"{self._name} failed in render", error) from error

    def _final(self, info: Any) -> dict[str, float]:
        """What to report about an episode that ends."""
        self._tolerance.finished += 1
        restarts, self._restarts = self._restarts, 0
        return {**numbers_of(info), **({RESTARTS: restarts} if restarts else {})}

    def _restart(self, method: str, error: BaseException) -> None:
        """Rebuilds the environment, or raises EnvironmentFailed if there were too many errors."""
        failed = failure(f"{self._name} failed in {method}", error)
        tolerance = self._tolerance
        tolerance.errors += 1
        if tolerance.is_exceeded:
            if isinstance(error, CannotBuild) and not tolerance.finished:
                raise error
            raise EnvironmentFailed(str(failed)) from error
        _log.warning("%s; it restarts (error %d in %d episodes)", failed, tolerance.errors, tolerance.finished)
        self._restarts += 1
        if self._seeds is not None:
            self._next_seed = int(self._seeds.spawn(1)[0].generate_state(1)[0]) >> 1  # less than 2^31
        try:
            self.env.close()
        except Exception as unclosed:
            _log.warning("%s could not be closed: %s", self._name, described(unclosed))
        try:
            self.env = self._make()
        except CannotBuild as again:
            raise EnvironmentFailed(f"{failed}; then {again}") from error

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

    def _scalar(self, part: str, declared: str, kinds: str, value: Any) -> Any:
        """The only element of a value whose dtype is one of these kinds."""
        array = _as_array(value)
        if array.size != 1 or array.dtype.kind not in kinds:
            remedy = _NO_NUMBER if part == "reward" and array.size > 1 else ""
            raise self._wrong(part, declared, _described(value) + remedy)
        return array.item()

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
