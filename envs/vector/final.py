"""The last observations of episodes and numbers about them, which environments return in `info`, and wrappers that
convert observations.

An observation of E environments is an array [E, ...] or a dictionary of such arrays.
"""

import abc
import itertools
import re
from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv, VectorWrapper
from gymnasium.vector.utils import concatenate, create_empty_array

from seed_rl.envs.base import EnvironmentFailed, autoreset_mode

_MOST_NUMBERS = 32  # about an episode
_NAME = re.compile(r"[\w.-]{1,32}(/[\w.-]{1,31})?", re.ASCII)


def numbers_of(info: Any) -> dict[str, float]:
    """The finite numbers in the info of an episode's last step, at most 32, by name; all else is ignored.

    Numbers in a dictionary are named `dictionary/name`. Names have letters, digits and `_ . -`.
    """
    found = {}
    for name, value in info.items() if isinstance(info, Mapping) else ():
        parts = {f"{name}/{key}": part for key, part in value.items()} if isinstance(value, Mapping) else {name: value}
        for path, part in parts.items():
            if isinstance(part, int | float) or getattr(part, "shape", None) in ((), (1,)):
                number = np.asarray(part)
                if number.dtype.kind in "fiub" and np.isfinite(number).all() and _NAME.fullmatch(str(path)):
                    found[str(path)] = float(number.item())
    return dict(itertools.islice(found.items(), _MOST_NUMBERS))


def final_numbers(final: Any, ended: np.ndarray) -> list[tuple[int, str, float]]:
    """Numbers about the episodes that have just ended, where `ended`, bool [E]: index of the environment, name, value.

    `final` is the info of a step with NEXT_STEP autoreset, or its `final_info` with SAME_STEP: arrays [E] by name, and
    masks of their valid elements as `_name`. Everything else in it is ignored.
    """
    found = []
    for index in np.flatnonzero(ended) if isinstance(final, Mapping) else ():
        arrays = {name: v for name, v in final.items() if isinstance(v, np.ndarray) and v.shape[:1] == ended.shape}
        valid = {name: v[index] for name, v in arrays.items() if arrays.get(f"_{name}", ended)[index]}
        own = {name: value for name, value in valid.items() if not str(name).startswith("_")}
        found += [(int(index), name, value) for name, value in numbers_of(own).items()]
    return found


def final_observations(env: VectorEnv, info: Mapping[str, Any], which: np.ndarray) -> Any:
    """The last observations [n, ...] of the episodes `which`, int [n], that have just ended; None if `info` has none.

    `info` is that of a step with SAME_STEP autoreset. Its `final_obs` is an observation [E, ...], or an array of E
    objects, as in Gymnasium's own vector environments.
    """
    final = info.get("final_obs")
    if isinstance(final, np.ndarray) and final.dtype == object:
        space = env.single_observation_space
        batch: Any = create_empty_array(space, len(which))
        return concatenate(space, [final[index] for index in which], batch)
    return None if final is None else rows(final, which)


def rows(observation: Any, which: np.ndarray) -> Any:
    """Copy the rows `which`, int [n], of an observation to an observation [n, ...]."""
    if isinstance(observation, dict):
        return {name: tensor[which] for name, tensor in observation.items()}
    return observation[which]


def replace_rows(observation: Any, which: np.ndarray, new: Any) -> Any:
    """Copy an observation and replace the rows `which`, int [n], with those of `new`, an observation [n, ...]."""
    if isinstance(observation, dict):
        return {name: replace_rows(tensor, which, new[name]) for name, tensor in observation.items()}
    copy = np.array(observation)
    copy[which] = new
    return copy


class ConvertedVectorEnv(VectorWrapper, abc.ABC):
    """Environments whose observations are converted, also those in `info`; a subclass sets the spaces.

    Steps raise EnvironmentFailed, with the environments' name, unless there is a reward and an end for each of them.
    """

    def __init__(self, env: VectorEnv, name: str = "an environment"):
        super().__init__(env)
        self._name = name
        self._is_late = autoreset_mode(env) == AutoresetMode.NEXT_STEP
        self._nowhere = np.zeros(env.num_envs, bool)

    @abc.abstractmethod
    def convert(self, observation: Any, ended: np.ndarray) -> Any:
        """Convert an observation [E, ...]; `ended`, bool [E], says whether it is the last of an episode."""

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        observation, info = self.env.reset(seed=seed, options=options)
        return self.convert(observation, self._nowhere), info

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        observation, reward, *ends, info = self.env.step(actions)
        terminated, truncated = (np.asarray(each, np.bool_) for each in ends)
        for part, values in (("rewards", reward), ("terminated", terminated), ("truncated", truncated)):
            if np.shape(values) != self._nowhere.shape:
                wanted, came = list(self._nowhere.shape), list(np.shape(values))
                raise EnvironmentFailed(f"{self._name}: {part} of a step must be an array {wanted}, got {came}")
        observation = self.convert(observation, terminated | truncated if self._is_late else self._nowhere)
        if "final_obs" in info and truncated.any():
            which = np.flatnonzero(truncated)
            last = self.convert(final_observations(self.env, info, which), np.ones(len(which), bool))
            info = {**info, "final_obs": replace_rows(observation, which, last)}
        return observation, reward, terminated, truncated, info
