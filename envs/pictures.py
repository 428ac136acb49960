"""One environment that can be watched: a vector environment of size 1 that also gives pictures for people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import VectorEnv, VectorWrapper

from seed_rl.envs.errors import CannotBuild

SMALLEST = 160
"""Pixels, of the shorter side of a picture; smaller ones are enlarged by whole numbers."""


class Watchable(VectorWrapper):
    """A vector environment of size 1 whose `picture` shows where it is now."""

    def picture(self) -> np.ndarray:
        """uint8 [H, W, 3], of the same size at all times."""
        raise NotImplementedError


class ObservationPictures(Watchable):
    """Shows the observation: the first of its tensors that is a picture, or planes of bits in different greys."""

    def __init__(self, env: VectorEnv):
        super().__init__(env)
        space = env.single_observation_space
        parts = dict(space.items()) if isinstance(space, gymnasium.spaces.Dict) else {"": space}
        names = [name for name, part in parts.items() if _can_be_shown(part)]
        if not names:
            env.close()
            raise CannotBuild(f"there is nothing to see in {space}: pictures are uint8 [H, W, 1 or 3] or uint16 [H, W]")
        self._name = names[0]
        self._shown: Any = None

    def reset(self, *, seed: Any = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        """Begins an episode, whose first observation is shown."""
        observation, info = self.env.reset(seed=seed, options=options)
        self._shown = observation
        return observation, info

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Steps the environment and shows what it observes then."""
        result = self.env.step(actions)
        self._shown = result[0]
        return result

    def picture(self) -> np.ndarray:
        shown = self._shown[self._name] if isinstance(self._shown, Mapping) else self._shown
        return enlarged(_as_colours(np.asarray(shown[0])))


class TwinPictures(Watchable):
    """Shows a twin that does the same and observes more: frames [1, 1, H, W, 3]."""

    def __init__(self, env: VectorEnv, twin: VectorEnv):
        super().__init__(env)
        self._twin = twin
        self._frames: Any = None

    def reset(self, *, seed: Any = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        """Begins the same episode in both.

        Raises:
          ValueError: without a seed they would begin different ones.
        """
        if seed is None:
            raise ValueError("twins need a seed to do the same")
        self._frames, _ = self._twin.reset(seed=seed, options=options)
        return self.env.reset(seed=seed, options=options)

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Steps both with the same actions."""
        self._frames = self._twin.step(actions)[0]
        return self.env.step(actions)

    def picture(self) -> np.ndarray:
        return enlarged(self._frames[0, -1])

    def close(self, **kwargs: Any) -> None:
        """Closes both."""
        self._twin.close(**kwargs)
        super().close(**kwargs)


class RenderedPictures(Watchable):
    """Shows what the environment itself renders (`render_mode="rgb_array"`)."""

    def picture(self) -> np.ndarray:
        frames = self.env.render()
        if frames is None or frames[0] is None:
            raise CannotBuild("the environment renders nothing as rgb_array")
        return enlarged(np.asarray(frames[0], np.uint8))


def enlarged(picture: np.ndarray) -> np.ndarray:
    """uint8 [H, W, 3], every pixel as a square so that the shorter side has at least `SMALLEST`."""
    factor = -(-SMALLEST // min(picture.shape[:2]))
    return picture.repeat(factor, axis=0).repeat(factor, axis=1)


def _can_be_shown(space: gymnasium.Space[Any]) -> bool:
    shape = space.shape or ()
    if space.dtype == np.uint16:
        return len(shape) == 2
    return space.dtype == np.uint8 and len(shape) == 3 and shape[-1] in (1, 3)


def _as_colours(frame: np.ndarray) -> np.ndarray:
    if frame.dtype == np.uint16:  # each plane in a grey of its own; where several meet, the highest wins
        highest = np.zeros(frame.shape, np.int64)
        for bit in range(16):
            highest = np.where(frame >> bit & 1, bit + 1, highest)
        frame = (highest * 255 // 16).astype(np.uint8)[..., None]
    return np.broadcast_to(frame, (*frame.shape[:2], 3))
