"""Any environment registered with Gymnasium or built into EnvPool."""

from __future__ import annotations

import dataclasses
import functools
import json
import os
import warnings
from typing import Annotated, Any, ClassVar

import gin
import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorEnv

from seed_rl.envs.base import (
    CannotBuild,
    EnvConfig,
    EnvironmentFailed,
    ObservationPictures,
    Watchable,
    failure,
    spec_of,
)
from seed_rl.envs.checks import Checked
from seed_rl.envs.masks import packed, with_mask
from seed_rl.envs.pool import INSTALL, make_pool
from seed_rl.envs.processes import ProcessVectorEnv, alone
from seed_rl.envs.wrappers import FlatVectorEnv, SameStep
from seed_rl.foreign import described
from seed_rl.settings import Count, OneOf

_FAMILIES = {
    "mujoco": {"mujoco": "pip install 'gymnasium[mujoco]' 'mujoco<3.15'"},
    "box2d": {"Box2D": "pip install box2d"},
}
"""The modules that families of Gymnasium environments need, and how to install them."""


@gin.configurable
@dataclasses.dataclass(frozen=True)
class Gym(EnvConfig):
    """An environment given by its id, such as `CartPole-v1`, or by `module:id` if `module` registers it."""

    suite: ClassVar[str] = "gym"
    task_setting: ClassVar[str] = "id"

    id: str = "CartPole-v1"
    """The registered id, prefixed with `module:` if a module must be imported first (actors on other machines need
    `--import_module` for that); with `envpool`, an EnvPool id."""
    vectorization: Annotated[str, OneOf("sync", "async", "vector_entry_point")] = "sync"
    """`sync`: environments step in sequence in the actor; `async`: one process per environment; `vector_entry_point`:
    the environment's own vector implementation."""
    envpool: bool = False
    """Use EnvPool's implementation, which steps all environments in native threads and ignores `vectorization`."""
    options: str = "{}"
    """Keyword arguments of the environment, a JSON object."""
    action_mask: str = "auto"
    """Where to find the mask of legal actions. `auto`: the key `action_mask` or `legal_action_mask` of the observation
    or `info`, or the environment's method `action_masks`; `none`: all actions are legal; otherwise another key."""
    frames_per_step: Count = 1
    """Number of frames to count per step: the environment's built-in action repeat."""

    def __post_init__(self):
        super().__post_init__()
        try:
            parsed = json.loads(self.options)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"Gym.options must be a JSON object, got {self.options[:200]!r}: {error}") from error
        if not isinstance(parsed, dict):
            raise ValueError(f"Gym.options must be a JSON object, got {self.options!r}")
        if taken := {"id", "num_envs", "vectorization_mode", "vector_kwargs", "wrappers"}.intersection(parsed):
            raise ValueError(f"Gym.options must not set {min(taken)!r}, which has its own setting or none")

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
    def reward_threshold(self) -> float | None:
        return getattr(gymnasium.registry.get(self.id), "reward_threshold", None)

    @property
    def modules(self) -> tuple[str, ...]:
        if self.envpool:
            return ()
        # Gymnasium's wrappers of older environments take an id, possibly with `module:`, as an option.
        ids = (self.id, str(json.loads(self.options).get("env_id", "")))
        return tuple(name.partition(":")[0] for name in ids if ":" in name)

    def watch(self) -> Watchable:
        """Draws the environment's own rendering; without one, its observations if they are pictures."""
        os.environ.setdefault("SDL_VIDEODRIVER", "dummy")  # pygame needs no display for these pictures
        os.environ.setdefault("MUJOCO_GL", "egl")
        try:
            if self.envpool:
                raise CannotBuild("EnvPool's environments don't render")
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # about a missing render mode, which is handled here
                return _RenderedPictures(self.make(1, render_mode="rgb_array"))
        except CannotBuild as error:
            reason = str(error)
        env = self.make(1)
        try:
            return ObservationPictures(env)
        except CannotBuild as error:
            raise CannotBuild(f"{self.id} can't be filmed: {reason}; and {error}") from error

    def make(self, num_envs: int, **more_options: Any) -> VectorEnv:
        options = {**json.loads(self.options), **more_options}
        env = make_pool(self.id, num_envs, options) if self.envpool else self._make_gymnasium(num_envs, options)
        mode = env.metadata.get("autoreset_mode", AutoresetMode.NEXT_STEP)
        if mode == AutoresetMode.NEXT_STEP:
            env = SameStep(env)
        elif mode != AutoresetMode.SAME_STEP:
            env.close()
            raise CannotBuild(f"{self.id} must reset its environments itself, but has autoreset mode {mode}")
        try:
            native = self.envpool or self.vectorization == "vector_entry_point"
            flat = packed(FlatVectorEnv(env, self.id), self.action_mask, self.id, in_info=native)
            spec_of(flat)
        except ValueError as error:
            env.close()
            raise CannotBuild(f"{self.id}: {error}") from error
        return flat

    def _make_gymnasium(self, num_envs: int, options: dict[str, Any]) -> VectorEnv:
        masked: Any = functools.partial(with_mask, name=self.id, setting=self.action_mask, known=[])
        try:
            if self.vectorization == "vector_entry_point":
                return gymnasium.make_vec(self.id, num_envs, vectorization_mode=self.vectorization, **options)
            env = gymnasium.make_vec(
                self.id,
                num_envs if self.vectorization == "sync" else 1,
                vectorization_mode="sync",
                vector_kwargs={"autoreset_mode": AutoresetMode.SAME_STEP},
                wrappers=[masked, functools.partial(Checked, name=self.id)],
                **{"disable_env_checker": True, **options},
            )
            if not isinstance(env, SyncVectorEnv) or self.vectorization == "sync":
                return env
            env.close()
            return ProcessVectorEnv([alone(env.env_fns[0])] * num_envs, self.id)
        except (CannotBuild, EnvironmentFailed):
            raise
        except (Exception, SystemExit) as error:  # an environment's constructor may raise anything
            known = isinstance(error, gymnasium.error.Error | ImportError | TypeError)
            raise CannotBuild(f"{self.id} can't be made: {error if known else described(error)}") from error


class _RenderedPictures(Watchable):
    """Draws the environment's own rendering (`render_mode="rgb_array"`)."""

    def __init__(self, env: VectorEnv):
        """
        Raises:
          CannotBuild: the environment can't render, at least on this machine; `env` is closed.
        """
        super().__init__(env)
        try:
            self.picture(env.reset(seed=0)[0])
        except Exception as error:  # rendering may raise anything
            env.close()
            raise CannotBuild(str(failure("rendering fails", error))) from error

    def picture(self, observation: Any) -> np.ndarray:
        frames = self.env.render()
        return _coloured(None if frames is None else frames[0])


def _coloured(frame: Any) -> np.ndarray:
    """Converts a rendered picture, possibly grey, with transparency, or of floats in [0, 1], to uint8 [H, W, 3].

    Raises:
      CannotBuild: the frame is not a picture.
    """
    frame = np.asarray(frame[-1] if isinstance(frame, list) and frame else frame)
    if frame.ndim == 2:
        frame = frame[..., np.newaxis]
    if frame.dtype.kind not in "fiub" or frame.ndim != 3 or frame.shape[2] not in (1, 3, 4) or not frame.size:
        came = "nothing" if frame.dtype == object else f"{frame.dtype}{list(frame.shape)}"
        raise CannotBuild(f"render must return a picture, an array [H, W, 3], but returned {came}")
    if frame.dtype.kind in "fb" and frame.max() <= 1:
        frame = frame * np.float32(255)
    return np.array(np.broadcast_to(np.clip(frame[..., :3], 0, 255), (*frame.shape[:2], 3)), np.uint8)
