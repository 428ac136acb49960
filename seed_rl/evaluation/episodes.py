"""Plays whole episodes with a policy."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import gymnasium
import numpy as np

from seed_rl.evaluation.policy import Policy
from seed_rl.types import EnvOutput


class Played(NamedTuple):
    """Episodes, in the order in which they ended."""

    returns: np.ndarray
    """float64 [n]: sums of unclipped rewards."""
    lengths: np.ndarray
    """int64 [n]: agent steps, before action repeats."""

    def summary(self) -> dict[str, float]:
        """`episodes`, `mean_length`, and of the returns `mean`, `standard_error` (of the mean; nan for one episode),
        `median`, `min` and `max`."""
        count = len(self.returns)
        deviation = float(np.std(self.returns, ddof=1)) if count > 1 else math.nan
        return {
            "episodes": count,
            "mean": float(self.returns.mean()),
            "standard_error": deviation / math.sqrt(count),
            "median": float(np.median(self.returns)),
            "min": float(self.returns.min()),
            "max": float(self.returns.max()),
            "mean_length": float(self.lengths.mean()),
        }


def play(
    policy: Policy,
    env: gymnasium.vector.VectorEnv,
    episodes: int,
    seed: int,
    on_output: Callable[[EnvOutput], None] = lambda output: None,
    on_episode: Callable[[int, float], None] = lambda count, episode_return: None,
) -> Played:
    """Plays episodes in B environments at a time.

    Which episodes count is decided beforehand: the first ceil(episodes / B) of each environment, one fewer of some.
    Counting the first episodes to end would favour short ones. Environments that have played theirs continue until all
    have, uncounted.

    Args:
      policy: acts.
      env: B environments with SAME_STEP autoreset.
      episodes: number to play, at least 1.
      seed: of the environments.
      on_output: called with each output, the first before any action, the last after the last action.
      on_episode: called at the end of each episode, with the number of episodes played so far and its return.
    """
    num_envs = env.num_envs
    left = np.full(num_envs, episodes // num_envs)
    left[: episodes % num_envs] += 1
    policy.reset(num_envs)
    observation, _ = env.reset(seed=seed)
    output = EnvOutput(np.zeros(num_envs, np.float32), np.ones(num_envs, bool), observation)
    on_output(output)
    total, length = np.zeros(num_envs), np.zeros(num_envs, np.int64)
    returns: list[float] = []
    lengths: list[int] = []
    while left.any():
        observation, reward, terminated, truncated, _ = env.step(policy.act(output))
        output = EnvOutput(np.asarray(reward, np.float32), terminated | truncated, observation)
        on_output(output)
        total += reward
        length += 1
        for index in np.flatnonzero(output.done):
            if left[index]:
                left[index] -= 1
                returns.append(float(total[index]))
                lengths.append(int(length[index]))
                on_episode(len(returns), returns[-1])
            total[index] = length[index] = 0
    return Played(np.array(returns), np.array(lengths))
