"""Environments that can be filmed: a vector environment of size 1 that also draws pictures."""

from __future__ import annotations

import abc
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import VectorEnv, VectorWrapper

from seed_rl.envs.base import CannotBuild


class Watchable(VectorWrapper, abc.ABC):
    """A vector environment of size 1 that draws its current state.

    Drawing changes nothing: with the same seed and actions it plays the same episodes as an unwatched environment.
    """

    @abc.abstractmethod
    def picture(self, observation: Any) -> np.ndarray:
        """Draws the state that the environment is in.

        Args:
          observation: its latest observation [1, ...].

        Returns:
          uint8 [H, W, 3], always of the same size.
        """


class ObservationPictures(Watchable):
    """Draws the observation; of several tensors, the first that is a picture."""

    def __init__(self, env: VectorEnv, to_colours: Callable[[np.ndarray], np.ndarray] | None = None):
        """
        Args:
          env: of size 1.
          to_colours: turns the tensor of one environment into uint8 [H, W, 3]; by default uint8 [H, W, 1 or 3] is
            drawn as it is.

        Raises:
          CannotBuild: no tensor of the observation is a picture; `env` is closed.
        """
        super().__init__(env)
        space = env.single_observation_space
        parts = dict(space.items()) if isinstance(space, gymnasium.spaces.Dict) else {"": space}
        names = [name for name, part in parts.items() if to_colours is not None or _is_picture(part)]
        if not names:
            env.close()
            raise CannotBuild(f"there is nothing to see: a picture is uint8 [H, W, 1 or 3], observations are {space}")
        self._name = names[0]
        self._to_colours = to_colours or (lambda frame: np.broadcast_to(frame, (*frame.shape[:2], 3)))

    def picture(self, observation: Any) -> np.ndarray:
        tensor = observation[self._name] if self._name else observation
        return self._to_colours(np.asarray(tensor[0]))


def _is_picture(space: gymnasium.Space[Any]) -> bool:
    shape = space.shape or ()
    return space.dtype == np.uint8 and len(shape) == 3 and shape[-1] in (1, 3)
