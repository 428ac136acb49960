"""Any registered Gymnasium environment, and any of EnvPool's."""

from __future__ import annotations

import dataclasses
import json
from typing import Any, ClassVar

import gin
import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv

from seed_rl.envs.base import EnvConfig, spec_of
from seed_rl.envs.flatten import FlatVectorEnv
from seed_rl.envs.registry import CannotBuild
from seed_rl.settings import check_at_least, check_one_of, check_types
from seed_rl.specs import EnvSpec

VECTORIZATIONS = ("sync", "async", "vector_entry_point")


@gin.configurable
@dataclasses.dataclass(frozen=True)
class Gym(EnvConfig):
    """An environment by its id, such as `CartPole-v1`, or `module:id` for one that `module` registers."""

    suite: ClassVar[str] = "gym"

    id: str = "CartPole-v1"
    vectorization: str = "sync"
    """`sync`: one after the other in the actor; `async`: a process each; `vector_entry_point`: as the environment
    brings it."""
    envpool: bool = False
    """Take the environment from EnvPool, whose threads step all of them at once; `vectorization` has no effect then."""
    options: str = "{}"
    """Keyword arguments of the environment, a JSON object."""
    frames_per_step: int = 1
    """Environment frames that a step counts as: the environment's own action repeat."""

    def __post_init__(self):
        check_types(self)
        check_one_of(self, VECTORIZATIONS, "vectorization")
        check_at_least(self, 1, "frames_per_step")
        try:
            parsed = json.loads(self.options)
        except ValueError as error:
            raise ValueError(f"Gym.options must be a JSON object, got {self.options!r}: {error}") from error
        if not isinstance(parsed, dict):
            raise ValueError(f"Gym.options must be a JSON object, got {self.options!r}")

    @property
    def action_repeat(self) -> int:
        return self.frames_per_step

    def spec(self) -> EnvSpec:
        env = self.make(1)
        try:
            return spec_of(env)
        finally:
            env.close()

    def make(self, num_envs: int) -> VectorEnv:
        env = self._make_envpool(num_envs) if self.envpool else self._make_gymnasium(num_envs)
        mode = env.metadata.get("autoreset_mode", AutoresetMode.NEXT_STEP)
        if mode == AutoresetMode.NEXT_STEP:
            env = SameStep(env)
        elif mode != AutoresetMode.SAME_STEP:
            env.close()
            raise CannotBuild(f"{self.id} does not reset its environments by itself: autoreset mode {mode}")
        try:
            flat = FlatVectorEnv(env)
            spec_of(flat)
        except ValueError as error:
            env.close()
            raise CannotBuild(f"{self.id}: {error}") from error
        return flat

    def _make_gymnasium(self, num_envs: int) -> VectorEnv:
        arguments: dict[str, Any] = {}
        if self.vectorization != "vector_entry_point":
            arguments["vector_kwargs"] = {"autoreset_mode": AutoresetMode.SAME_STEP}
        if self.vectorization == "async":
            arguments["vector_kwargs"]["context"] = "spawn"
        try:
            return gymnasium.make_vec(
                self.id, num_envs, vectorization_mode=self.vectorization, **arguments, **json.loads(self.options)
            )
        except (gymnasium.error.Error, ImportError, TypeError) as error:
            raise CannotBuild(f"{self.id} can't be made: {error}") from error

    def _make_envpool(self, num_envs: int) -> VectorEnv:
        try:
            import envpool
        except ImportError as error:
            raise CannotBuild("EnvPool is not installed here: pip install 'seed_rl[envpool]'") from error
        if self.id not in envpool.list_all_envs():
            raise CannotBuild(f"EnvPool has no environment {self.id!r}; envpool.list_all_envs() names them")
        return EnvPoolVectorEnv(
            lambda seed: envpool.make_gymnasium(self.id, num_envs=num_envs, seed=seed, **json.loads(self.options)),
            num_envs,
        )


class SameStep(gymnasium.vector.VectorWrapper):
    """Presents an environment that resets in the step after the last of an episode as one that resets in the same.

    Such an environment shows the last observation of an episode together with its end, and in the next step, whose
    action it ignores, the first of the new episode with no reward. Here the end is told with that step: the last
    observation becomes one more step of the old episode, worth nothing.
    """

    def __init__(self, env: VectorEnv):
        super().__init__(env)
        self.metadata = {**env.metadata, "autoreset_mode": AutoresetMode.SAME_STEP}
        self._terminated = np.zeros(env.num_envs, bool)
        self._truncated = np.zeros(env.num_envs, bool)

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Starts every episode anew."""
        self._terminated[:] = self._truncated[:] = False
        return self.env.reset(seed=seed, options=options)

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Steps; ends are told one step later."""
        observation, reward, terminated, truncated, info = self.env.step(actions)
        ended = self._terminated, self._truncated
        self._terminated, self._truncated = np.array(terminated, bool), np.array(truncated, bool)
        return observation, reward, *ended, info


class EnvPoolVectorEnv(VectorEnv):
    """An EnvPool as a vector environment that can be seeded; resets in the step after the last of an episode.

    EnvPool takes its seed when it is made: a reset with a seed makes it anew.
    """

    def __init__(self, make: Any, num_envs: int):
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
        observation, reward, terminated, truncated, _ = self._pool.step(np.asarray(actions))
        return observation, reward, terminated, truncated, {}

    def close_extras(self, **kwargs: Any) -> None:
        """Ends the pool's threads."""
        self._pool.close()
