"""One environment that can be watched: a vector environment of size 1 that also gives pictures for people."""

from __future__ import annotations

import abc
from collections.abc import Callable, Mapping
from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import VectorEnv, VectorWrapper

from seed_rl.envs.errors import CannotBuild

SMALLEST = 320
"""Pixels, of the shorter side of a picture; smaller ones are enlarged by whole numbers."""
LARGEST = 1920
"""Pixels, of the longer side: no picture is enlarged beyond."""


class Watchable(VectorWrapper, abc.ABC):
    """A vector environment of size 1 whose `picture` shows where it is now.

    To look changes nothing: with the same seeds and actions it plays the same episodes as an environment that nobody
    watches.
    """

    @abc.abstractmethod
    def picture(self) -> np.ndarray:
        """uint8 [H, W, 3], of the same size at all times; after a reset."""


class ObservationPictures(Watchable):
    """Shows the observation, or of several tensors the first that is a picture."""

    def __init__(self, env: VectorEnv, to_colours: Callable[[np.ndarray], np.ndarray] | None = None):
        """
        Args:
          env: of size 1.
          to_colours: makes uint8 [H, W, 3] of one environment's tensor; None: it is uint8 [H, W, 1 or 3].

        Raises:
          CannotBuild: no tensor of the observation is a picture; `env` is closed then.
        """
        super().__init__(env)
        space = env.single_observation_space
        parts = dict(space.items()) if isinstance(space, gymnasium.spaces.Dict) else {"": space}
        names = [name for name, part in parts.items() if to_colours is not None or _is_picture(part)]
        if not names:
            env.close()
            raise CannotBuild(f"there is nothing to see: a picture is uint8 [H, W, 1 or 3], observations are {space}")
        self._name = names[0]
        self._to_colours = to_colours or _as_colours
        self._shown: Any = None

    def reset(self, *, seed: Any = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        """Begins an episode, whose first observation is shown."""
        self._shown, info = self.env.reset(seed=seed, options=options)
        return self._shown, info

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Steps the environment and shows what it observes then."""
        result = self.env.step(actions)
        self._shown = result[0]
        return result

    def picture(self) -> np.ndarray:
        shown = self._shown[self._name] if isinstance(self._shown, Mapping) else self._shown
        return enlarged(self._to_colours(np.asarray(shown[0])))


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

    def __init__(self, env: VectorEnv):
        """
        Raises:
          CannotBuild: it renders nothing, or can't here; `env` is closed then.
        """
        super().__init__(env)
        try:
            env.reset(seed=0)  # none can be rendered before
            self.picture()
        except Exception as error:  # what draws may raise anything
            env.close()
            raise CannotBuild(str(error) if isinstance(error, CannotBuild) else f"rendering fails: {error}") from error

    def picture(self) -> np.ndarray:
        frames = self.env.render()
        if frames is None or frames[0] is None:
            raise CannotBuild("the environment renders no rgb_array")
        return enlarged(np.array(frames[0], np.uint8))


def enlarged(picture: np.ndarray) -> np.ndarray:
    """uint8 [H, W, 3] with squares for pixels, so that the shorter side has `SMALLEST` if `LARGEST` allows it."""
    short, long = sorted(picture.shape[:2])
    factor = max(1, min(-(-SMALLEST // short), LARGEST // long))
    return picture.repeat(factor, axis=0).repeat(factor, axis=1)


def _is_picture(space: gymnasium.Space[Any]) -> bool:
    shape = space.shape or ()
    return space.dtype == np.uint8 and len(shape) == 3 and shape[-1] in (1, 3)


def _as_colours(frame: np.ndarray) -> np.ndarray:
    return np.broadcast_to(frame, (*frame.shape[:2], 3))
