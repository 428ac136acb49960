"""Pictures that environments render themselves."""

import os
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from gymnasium.vector import VectorEnv

from seed_rl.envs.base import CannotBuild, Watchable, failure, watch_observations


def make_watchable(make: Callable[..., VectorEnv], num_envs: int, name: str) -> Watchable:
    """Make environments that draw their own rendering, or else their observations, or raise CannotBuild."""
    os.environ.setdefault("SDL_VIDEODRIVER", "dummy")  # pygame needs no display for these pictures
    os.environ.setdefault("MUJOCO_GL", "egl")

    def picture(observation: Any) -> np.ndarray:
        frames = env.render()
        frame = np.asarray(None if frames is None else frames[0])
        if frame.dtype != np.uint8 or frame.ndim != 3 or frame.shape[2] not in (3, 4):
            raise CannotBuild(f"render must return a picture, uint8 [H, W, 3], but returned {frame.dtype}{frame.shape}")
        return frame[..., :3].copy()  # without transparency

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about a missing render mode, which is handled here
            env = make(num_envs, render_mode="rgb_array")
            picture(env.reset(seed=0)[0])
        return Watchable(env, picture)
    except Exception as error:  # rendering may raise anything
        reason = failure("rendering fails", error, CannotBuild)
    try:
        return watch_observations(make(num_envs))
    except CannotBuild as error:
        raise CannotBuild(f"{name} can't be filmed: {reason}; and {error}") from error
