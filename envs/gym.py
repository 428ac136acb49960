"""Any environment registered with Gymnasium or built into EnvPool."""

from __future__ import annotations

import dataclasses
import json
import os
import warnings
from typing import Annotated, Any, ClassVar

import gin
import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv

from seed_rl.envs.base import CannotBuild, EnvConfig, ObservationPictures, Watchable, spec_of
from seed_rl.envs.pool import INSTALL, make_pool
from seed_rl.envs.wrappers import FlatVectorEnv, SameStep
from seed_rl.settings import Count, OneOf

_FAMILIES = {
    "mujoco": {"mujoco": "pip install 'gymnasium[mujoco]' 'mujoco<3.15'"},
    "box2d": {"Box2D": "pip install box2d"},
}
"""Families of Gymnasium's environments that need a package of their own: its module, and how to install it."""


@gin.configurable
@dataclasses.dataclass(frozen=True)
class Gym(EnvConfig):
    """An environment by its id, such as `CartPole-v1`, or `module:id` for one that `module` registers."""

    suite: ClassVar[str] = "gym"
    task_setting: ClassVar[str] = "id"

    id: str = "CartPole-v1"
    """As registered, prefixed with `module:` if a module must be imported first, which actors on other machines permit
    with `--import_module`; with `envpool`, an EnvPool id."""
    vectorization: Annotated[str, OneOf("sync", "async", "vector_entry_point")] = "sync"
    """`sync`: one after the other in the actor; `async`: one process per environment; `vector_entry_point`: the
    environment's own vector version."""
    envpool: bool = False
    """Use EnvPool's version, which steps all environments in native threads; `vectorization` then has no effect."""
    options: str = "{}"
    """Keyword arguments of the environment, a JSON object."""
    frames_per_step: Count = 1
    """Environment frames counted per step: the environment's own action repeat."""

    def __post_init__(self):
        super().__post_init__()
        try:
            parsed = json.loads(self.options)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"Gym.options must be a JSON object, got {self.options[:200]!r}: {error}") from error
        if not isinstance(parsed, dict):
            raise ValueError(f"Gym.options must be a JSON object, got {self.options!r}")

    @classmethod
    def tasks(cls) -> list[str]:
        return sorted(gymnasium.registry)

    @property
    def packages(self) -> dict[str, str]:
        if self.envpool:
            return {"envpool": INSTALL}
        entry_point = str(getattr(gymnasium.registry.get(self.id), "entry_point", ""))
        family = entry_point.removeprefix("gymnasium.envs.").partition(".")[0]
        return _FAMILIES.get(family, {})

    @property
    def action_repeat(self) -> int:
        return self.frames_per_step

    @property
    def modules(self) -> tuple[str, ...]:
        if self.envpool:
            return ()
        # Gymnasium's wrappers of older environments take the id of one, `module:` included, as an option.
        ids = (self.id, str(json.loads(self.options).get("env_id", "")))
        return tuple(name.partition(":")[0] for name in ids if ":" in name)

    def watch(self) -> Watchable:
        """Shows the environment's own rendering; without one, its observations if they are pictures."""
        os.environ.setdefault("SDL_VIDEODRIVER", "dummy")  # pygame needs no display for these pictures
        os.environ.setdefault("MUJOCO_GL", "egl")
        rendered = self
        if "mujoco" in self.packages:  # OpenGL's drivers contain another LLVM than TensorFlow: a process takes only one
            rendered = dataclasses.replace(self, vectorization="async")
        try:
            if self.envpool:
                raise CannotBuild("EnvPool's environments render nothing")
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # about a missing render mode, which is handled here
                return _RenderedPictures(rendered.make(1, render_mode="rgb_array"))
        except CannotBuild as error:
            reason = str(error)
        env = self.make(1)
        try:
            return ObservationPictures(env)
        except CannotBuild as error:
            raise CannotBuild(f"{self.id} can't be watched: {reason}; and {error}") from error

    def make(self, num_envs: int, **more_options: Any) -> VectorEnv:
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
            sentence = str(error) if isinstance(error, gymnasium.error.Error | ImportError | TypeError) else repr(error)
            raise CannotBuild(f"{self.id} can't be made: {sentence}") from error


class _RenderedPictures(Watchable):
    """Shows the environment's own rendering (`render_mode="rgb_array"`)."""

    def __init__(self, env: VectorEnv):
        """
        Raises:
          CannotBuild: the environment doesn't render, or not on this machine; `env` is closed.
        """
        super().__init__(env)
        try:
            self.picture(env.reset(seed=0)[0])
        except Exception as error:  # rendering may raise anything
            env.close()
            raise CannotBuild(str(error) if isinstance(error, CannotBuild) else f"rendering fails: {error}") from error

    def picture(self, observation: Any) -> np.ndarray:
        frames = self.env.render()
        if frames is None or frames[0] is None:
            raise CannotBuild("the environment renders no rgb_array")
        return np.array(frames[0], np.uint8)
