"""An environment with usual mistakes, registered with Gymnasium."""

import os
import signal
import sys
from typing import ClassVar

import gymnasium
import numpy as np
from gymnasium import spaces

BOX = spaces.Box(-1, 1, (3,), np.float32)
SPACES = {
    "pair": spaces.MultiDiscrete([3, 3]),
    "parts": spaces.Dict({"a": BOX, "b": BOX}),
    "bytes": spaces.Box(0, 255, (3,), np.uint8),
    "doubles": spaces.Box(-np.inf, np.inf, (3,), np.float64),
    "names": spaces.Dict({"é": BOX, "": BOX, "x" * 300: BOX, "plain": BOX}),
}


def raise_error():
    raise ValueError("the game\ncrashed")


ODD = {
    "list": lambda: [0.0, 0.0, 0.0],
    "old": lambda: (np.zeros(3, np.float32), 1.0, False, {}),
    "wide": lambda: (np.zeros((3, 1), np.float32), {}),
    "error": raise_error,
    "exit": sys.exit,
    "crash": lambda: os.kill(os.getpid(), signal.SIGSEGV),
    "rgba": lambda: np.full((20, 30, 4), 255, np.uint8),
    "planes": lambda: np.zeros((3, 20, 30), np.uint8),
}


def made(value):
    """What a value of JSON stands for: a name in `ODD`, an array, a dictionary of arrays, or a number."""
    if isinstance(value, dict):
        return {key: made(own) for key, own in value.items()}
    return ODD[value]() if isinstance(value, str) else np.array(value) if isinstance(value, list) else value


class Mistaken(gymnasium.Env):
    """Returns what it is told to, by the place in which it is returned; episodes of ten steps."""

    metadata: ClassVar = {"render_modes": ["rgb_array"]}
    action_space = spaces.Discrete(2)

    def __init__(self, space="", render_mode=None, **mistakes):
        self.observation_space = SPACES.get(space, BOX)
        self.render_mode = render_mode
        self._mistakes, self._resets = mistakes, 0

    def _or(self, place, fine):
        return made(self._mistakes[place]) if place in self._mistakes else fine

    def _observe(self):
        space = self.observation_space
        if isinstance(space, spaces.Dict):
            return self._or("observation", dict.fromkeys(space, np.zeros(BOX.shape, BOX.dtype)))
        return self._or("observation", np.zeros(space.shape, space.dtype))

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        fine, self._steps = self._or("reset", (self._observe(), {})), 0
        self._resets += 1  # the first is a look for action masks
        return fine if self._resets < 3 else self._or("later reset", fine)

    def step(self, action):
        self._steps += 1
        info = {"of another shape each time": np.zeros(self._steps)}
        observation, reward = self._observe(), self._or("reward", 1.0)
        if self._steps == 3 and self.np_random_seed % 2 == 0:
            observation, reward = self._or("third observation", observation), self._or("third reward", reward)
        return self._or("step", (observation, reward, self._steps == 10, False, info))

    def render(self):
        return self._or("render", None)


gymnasium.register("Mistaken-v0", Mistaken)
