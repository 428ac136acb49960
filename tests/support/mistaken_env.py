"""An environment with usual mistakes, registered with Gymnasium."""

import os
import signal
from typing import ClassVar

import gymnasium
import numpy as np
from gymnasium import spaces

BOX = spaces.Box(-1, 1, (3,), np.float32)
FINE = np.zeros(3, np.float32)
SPACES = {
    "pair": spaces.MultiDiscrete([3, 3]),
    "parts": spaces.Dict({"a": BOX, "b": BOX}),
    "doubles": spaces.Box(-np.inf, np.inf, (3,), np.float64),
    "names": spaces.Dict({"é": BOX, "": BOX, "x" * 300: BOX, "plain": BOX}),
}


def raise_error():
    raise ValueError("the game\ncrashed")


VALUES = {
    "seven": lambda: np.array([7, -2]),
    "long": lambda: np.zeros(4, np.float32),
    "list": lambda: [0.0, 0.0, 0.0],
    "huge": lambda: 1e300,
    "three huge": lambda: np.full(3, 1e300),
    "nan": lambda: np.full(3, np.nan, np.float32),
    "half long": lambda: {"a": FINE, "b": np.zeros(4, np.float32)},
    "half nan": lambda: {"a": FINE, "b": np.full(3, np.nan, np.float32)},
    "both": lambda: {"a": FINE, "b": FINE},
    "not a number": lambda: float("nan"),
    "half": lambda: {"a": FINE},
    "all": lambda: dict.fromkeys(SPACES["names"], FINE),
    "array of one": lambda: np.ones(1),
    "array of two": lambda: np.ones(2, np.float32),
    "error": raise_error,
    "crash": lambda: os.kill(os.getpid(), signal.SIGSEGV),
    "rgba": lambda: np.full((20, 30, 4), 255, np.uint8),
    "planes": lambda: np.zeros((3, 20, 30), np.uint8),
}


class Mistaken(gymnasium.Env):
    """Returns the value of a name where it is asked to; episodes of ten steps."""

    metadata: ClassVar = {"render_modes": ["rgb_array"]}
    action_space = spaces.Discrete(2)

    def __init__(self, space="", render_mode=None, **mistakes):
        """`mistakes` has names of `VALUES`, by the place in which they are returned."""
        self.observation_space = SPACES.get(space, BOX)
        self.render_mode = render_mode
        self._mistakes = mistakes

    def _or(self, place, fine):
        return VALUES[self._mistakes[place]]() if place in self._mistakes else fine

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._steps = 0
        return self._or("reset", (self._or("observation", FINE), {}))

    def step(self, action):
        self._steps += 1
        info = {"of another shape each time": np.zeros(self._steps)}
        observation, reward = self._or("observation", FINE), self._or("reward", 1.0)
        if self._steps == 3 and self.np_random_seed % 2 == 0:
            observation, reward = self._or("third observation", observation), self._or("third reward", reward)
        return observation, reward, self._steps == 10, False, info

    def render(self):
        return self._or("render", None)


gymnasium.register("Mistaken-v0", Mistaken)
