"""Any registered Gymnasium environment, and any of EnvPool's."""

from __future__ import annotations

import dataclasses
import json
import os
import warnings
from typing import Any, ClassVar

import gin
import gymnasium
from gymnasium.vector import AutoresetMode, VectorEnv

from seed_rl.envs.autoreset import SameStep
from seed_rl.envs.base import EnvConfig, spec_of
from seed_rl.envs.flatten import FlatVectorEnv
from seed_rl.envs.pictures import ObservationPictures, RenderedPictures, Watchable
from seed_rl.envs.pool import make_pool
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
    """As registered, with `module:` before it if a module must be imported first; with `envpool` an id of EnvPool's."""
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

    def watch(self) -> Watchable:
        """Shows what the environment renders; where it renders nothing, its observations if they are pictures."""
        os.environ.setdefault("SDL_VIDEODRIVER", "dummy")  # what pygame draws here is never shown on a display
        reason = "EnvPool's environments render nothing"
        if not self.envpool:
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # that it renders nothing: it is asked for just to see
                    return RenderedPictures(self._make(1, render_mode="rgb_array"))
            except CannotBuild as error:
                reason = str(error)
        env = self.make(1)
        try:
            return ObservationPictures(env)
        except CannotBuild as error:
            raise CannotBuild(f"{self.id} can't be watched: {reason}; and {error}") from error

    def make(self, num_envs: int) -> VectorEnv:
        return self._make(num_envs)

    def _make(self, num_envs: int, **more_options: Any) -> VectorEnv:
        options = {**json.loads(self.options), **more_options}
        env = make_pool(self.id, num_envs, options) if self.envpool else self._make_gymnasium(num_envs, options)
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

    def _make_gymnasium(self, num_envs: int, options: dict[str, Any]) -> VectorEnv:
        arguments: dict[str, Any] = {}
        if self.vectorization != "vector_entry_point":
            arguments["vector_kwargs"] = {"autoreset_mode": AutoresetMode.SAME_STEP}
        if self.vectorization == "async":
            arguments["vector_kwargs"]["context"] = "spawn"
        try:
            return gymnasium.make_vec(self.id, num_envs, vectorization_mode=self.vectorization, **arguments, **options)
        except Exception as error:  # an environment's constructor may raise anything
            said = str(error) if isinstance(error, gymnasium.error.Error | ImportError | TypeError) else repr(error)
            raise CannotBuild(f"{self.id} can't be made: {said}") from error
