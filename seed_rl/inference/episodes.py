"""Returns and lengths of episodes, from the rewards that actors send."""

import collections
from typing import NamedTuple

import numpy as np


class Episodes(NamedTuple):
    """Finished episodes: arrays [number of episodes]."""

    env_ids: np.ndarray
    """int32, the environments."""
    returns: np.ndarray
    """float64, sums of unclipped rewards."""
    lengths: np.ndarray
    """int64, environment steps (agent decisions, before action repeats)."""


class EpisodeTracker:
    """Adds up the rewards of N environments and collects finished episodes. One thread may step while another takes."""

    def __init__(self, num_envs: int, max_steps: int | None = None):
        """`max_steps` is a length at which episodes are cut off; the next one begins in the same state."""
        self._max_steps = max_steps
        self._returns = np.zeros(num_envs)
        self._lengths = np.zeros(num_envs, np.int64)
        self._over = np.zeros(num_envs, bool)
        self._ended: collections.deque[Episodes] = collections.deque()

    def step(
        self, env_ids: np.ndarray, restarted: np.ndarray, reward: np.ndarray, done: np.ndarray, last: np.ndarray
    ) -> None:
        """Add a step, with reward, done and last as in `EnvOutput`, of each of B different environments, int32 [B].

        Where bool [B] `restarted`, a new run begins with the step; the unfinished episode is forgotten.
        """
        moved = ~self._over[env_ids] & ~restarted
        self._returns[env_ids] += reward
        self._lengths[env_ids] += moved
        over = moved & (done | last)
        if self._max_steps is not None:
            over |= moved & (self._lengths[env_ids] >= self._max_steps)
        if over.any():
            ended = env_ids[over]
            self._ended.append(Episodes(ended, self._returns[ended], self._lengths[ended]))
            self._begin(ended)
        self._over[env_ids] = last
        if restarted.any():
            self._begin(env_ids[restarted])

    def _begin(self, env_ids: np.ndarray) -> None:
        self._returns[env_ids] = self._lengths[env_ids] = self._over[env_ids] = 0

    @property
    def longest(self) -> int:
        """The length so far of the longest unfinished episode."""
        return int(self._lengths.max())

    def take(self) -> list[Episodes]:
        """Return the episodes that have ended since the last call."""
        return [self._ended.popleft() for _ in range(len(self._ended))]
