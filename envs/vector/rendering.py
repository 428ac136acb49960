"""Pictures that environments render themselves."""

import os
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from gymnasium.vector import VectorEnv

from seed_rl.envs.base import CannotBuild, ObservationPictures, Watchable, failure


def make_watchable(make: Callable[..., VectorEnv], num_envs: int, name: str) -> Watchable:
    """Make environments that draw their own rendering, or else their observations.

    Raises:
      CannotBuild: there is nothing to draw; the message begins with the environment's `name`.
    """
    os.environ.setdefault("SDL_VIDEODRIVER", "dummy")  # pygame needs no display for these pictures
    os.environ.setdefault("MUJOCO_GL", "egl")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about a missing render mode, which is handled here
            return _RenderedPictures(make(num_envs, render_mode="rgb_array"))
    except CannotBuild as error:
        reason = str(error)
    try:
        return ObservationPictures(make(num_envs))
    except CannotBuild as error:
        raise CannotBuild(f"{name} can't be filmed: {reason}; and {error}") from error


class _RenderedPictures(Watchable):
    """Draws the environment's own rendering (`render_mode="rgb_array"`)."""

    def __init__(self, env: VectorEnv):
        """
        Raises:
          CannotBuild: the environment can't render, at least on this machine.
        """
        super().__init__(env)
        try:
            self.picture(env.reset(seed=0)[0])
        except Exception as error:  # rendering may raise anything
            raise CannotBuild(str(failure("rendering fails", error))) from error

    def picture(self, observation: Any) -> np.ndarray:
        frames = self.env.render()
        frame = np.asarray(None if frames is None else frames[0])
        if frame.dtype != np.uint8 or frame.ndim != 3 or frame.shape[2] not in (3, 4):
            raise CannotBuild(f"render must return a picture, uint8 [H, W, 3], but returned {frame.dtype}{frame.shape}")
        return frame[..., :3].copy()  # without transparency
