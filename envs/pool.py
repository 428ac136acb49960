"""EnvPool's environments: compiled, and stepped by native threads."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv

from seed_rl.envs.registry import CannotBuild


def make_pool(name: str, num_envs: int, options: Mapping[str, Any]) -> EnvPoolVectorEnv:
    """`num_envs` of EnvPool's environments of a name.

    Raises:
      CannotBuild: EnvPool is not installed, has no such environment, or can't make it with these options.
    """
    try:
        import envpool
    except ImportError as error:
        raise CannotBuild(
            "EnvPool is not installed here: pip install 'seed_rl[envpool]' (Python 3.11 or newer)"
        ) from error
    if name not in envpool.list_all_envs():
        raise CannotBuild(f"EnvPool has no environment {name!r}; envpool.list_all_envs() names them")
    try:
        return EnvPoolVectorEnv(
            lambda seed: envpool.make_gymnasium(name, num_envs=num_envs, seed=seed, **options), num_envs
        )
    except (ImportError, TypeError, ValueError, RuntimeError) as error:
        raise CannotBuild(f"{name} can't be made by EnvPool: {error}") from error


class EnvPoolVectorEnv(VectorEnv):
    """An EnvPool as a vector environment that can be seeded; resets in the step after the last of an episode.

    EnvPool takes its seed when it is made: a reset with a seed makes it anew.
    """

    def __init__(self, make: Callable[[int], Any], num_envs: int):
        """
        Args:
          make: makes the pool from a seed.
          num_envs: environments in it.
        """
        self.num_envs = num_envs
        self.metadata = {"autoreset_mode": AutoresetMode.NEXT_STEP}
        self._make = make
        self._pool = make(0)
        self.single_observation_space = self._pool.observation_space
        self.single_action_space = self._pool.action_space
        if isinstance(self.single_action_space, spaces.Discrete):
            self.single_action_space = spaces.Discrete(int(self.single_action_space.n))
        self.observation_space = gymnasium.vector.utils.batch_space(self.single_observation_space, num_envs)
        self.action_space = gymnasium.vector.utils.batch_space(self.single_action_space, num_envs)

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Starts every episode anew."""
        if seed is not None:
            self._pool.close()
            self._pool = self._make(int(seed))
        observation, _ = self._pool.reset()
        return observation, {}

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Steps all environments."""
        return self._pool.step(np.asarray(actions))

    def close_extras(self, **kwargs: Any) -> None:
        """Ends the pool's threads."""
        self._pool.close()
