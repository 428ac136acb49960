"""EnvPool's environments, which are native code stepped by native threads."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode

from seed_rl.envs.base import CannotBuild, UniformVectorEnv
from seed_rl.system.files import explaining

_OF_THE_POOL = ("elapsed_step", "env_id", "players")  # what `info` says about no episode
INSTALL = "pip install envpool"


class EnvPoolVectorEnv(UniformVectorEnv):
    """An EnvPool with NEXT_STEP autoreset; a reset with a seed builds another one."""

    def __init__(self, name: str, num_envs: int, options: Mapping[str, Any]):
        """Build environments of EnvPool, which is installed, by their name, or raise CannotBuild."""
        with explaining(CannotBuild, f"EnvPool can't be loaded ({INSTALL})", ImportError):
            import envpool
        if name not in envpool.list_all_envs():
            raise CannotBuild(f"EnvPool has no environment {name!r}; envpool.list_all_envs() lists them")
        self._make = lambda seed: envpool.make_gymnasium(name, num_envs=num_envs, seed=seed, **options)
        known = ImportError, TypeError, ValueError, RuntimeError
        with explaining(CannotBuild, f"{name} can't be made by EnvPool", *known):
            self._pool = self._make(0)
        spaces = self._pool.observation_space, self._pool.action_space
        super().__init__(num_envs, *spaces, AutoresetMode.NEXT_STEP)

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        if seed is not None:
            self._pool.close()
            self._pool = self._make(int(seed))
        return self._pool.reset()

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        *outputs, info = self._pool.step(np.asarray(actions))
        return *outputs, {name: values for name, values in info.items() if name not in _OF_THE_POOL}

    def close_extras(self, **kwargs: Any) -> None:
        self._pool.close()
