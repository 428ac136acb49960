"""Stepping environments and acting at random: the one place that knows the modes of autoreset.

E is the number of environments.
"""

from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv

from seed_rl.envs.base import autoreset_mode, legal_actions, random_actions
from seed_rl.envs.vector.final import final_numbers, final_observations, replace_rows, rows
from seed_rl.specs import EnvSpec
from seed_rl.types import EnvOutput

Act: TypeAlias = Callable[[EnvOutput], np.ndarray]
"""Chooses the actions [E, ...] after an output [E, ...]."""


class Steps:
    """Steps E environments and shows where their episodes end, as `EnvOutput` says.

    Environments with NEXT_STEP autoreset output the last observation of every episode, and begin the next one in the
    step after it. Environments with SAME_STEP autoreset have last observations in `info`. With `shows_last`, such an
    environment produces two outputs where its episode is truncated: first the last observation of the old episode,
    then, once that has been acted on, the first observation of the next episode. The second output covers only the
    truncated environments, and the others wait for it.
    """

    def __init__(self, env: VectorEnv, shows_last: bool = False):
        """Raises CannotBuild if the environments don't declare that they reset themselves."""
        self._env, self._shows_last = env, shows_last
        self._is_late = autoreset_mode(env) == AutoresetMode.NEXT_STEP
        self._ended = self._nowhere = np.zeros(env.num_envs, bool)
        """bool [E]: where the newest output is the last of an episode, with NEXT_STEP autoreset."""
        self._observation: Any = None
        self._cut: np.ndarray | None = None
        """int [n]: the truncated environments, until the actions that answer their second output have arrived."""
        self._actions: np.ndarray | None = None
        """[E, ...]: the actions of the waiting environments, once the second output has been produced."""
        self.numbers: list[tuple[int, str, float]] = []
        """Numbers about the episodes that ended in the last output: index of the environment, name and value."""

    def reset(self, seed: int) -> EnvOutput:
        """Start a run; in its first output, fields [E, ...], an episode begins in every environment."""
        self._cut = self._actions = None
        self._ended, self.numbers = self._nowhere, []
        self._observation, _ = self._env.reset(seed=seed)
        return EnvOutput(np.zeros(self._env.num_envs, np.float32), ~self._nowhere, self._nowhere, self._observation)

    def step(self, actions: np.ndarray) -> EnvOutput:
        """The next output, given one action for each environment in the previous one.

        Its fields are [E, ...], or [n, ...] for the n environments with `last` in the previous output, in order. If an
        environment has no last observation in `info`, the one before it is shown instead.
        """
        if self._cut is not None:
            if self._actions is None:
                self._actions, self.numbers = actions.copy(), []
                begins = np.ones(len(self._cut), bool)
                return EnvOutput(np.zeros(len(begins), np.float32), begins, ~begins, rows(self._observation, self._cut))
            self._actions[self._cut] = actions
            actions, self._cut, self._actions = self._actions, None, None
        before = self._observation
        self._observation, reward, terminated, truncated, info = self._env.step(actions)
        with np.errstate(over="ignore"):  # too large rewards become infinite
            reward = np.asarray(reward, np.float32)
        ended = terminated | truncated
        if self._is_late:
            begins, self._ended = self._ended, ended
            self.numbers = final_numbers(info, ended)
            return EnvOutput(reward, begins | terminated, ended, self._observation)
        self.numbers = final_numbers(info.get("final_info"), ended)
        cut = truncated & ~terminated
        if not (self._shows_last and cut.any()):
            return EnvOutput(reward, ended, self._nowhere, self._observation)
        self._cut = np.flatnonzero(cut)
        final = final_observations(self._env, info, self._cut)
        final = rows(before, self._cut) if final is None else final
        return EnvOutput(reward, terminated, cut, replace_rows(self._observation, self._cut, final))


def outputs(env: VectorEnv, act: Act, seed: int) -> Iterator[EnvOutput]:
    """Yield the output of a reset, and then those of endless steps, all with fields [E, ...]."""
    steps = Steps(env)
    output = steps.reset(seed)
    while True:
        yield output
        output = steps.step(act(output))


def random_policy(spec: EnvSpec, seed: int = 0) -> Act:
    """Act uniformly at random among the legal actions."""
    rng = np.random.default_rng(seed)
    return lambda output: random_actions(spec.action, rng, len(output.reward), legal_actions(spec, output.observation))


def random_play(env: VectorEnv, spec: EnvSpec, seed: int = 0) -> Iterator[EnvOutput]:
    """Yield the `outputs` of a random policy."""
    return outputs(env, random_policy(spec, seed), seed)
