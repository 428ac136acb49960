"""A task in which only the critic sees what makes returns noisy."""

import gymnasium
import numpy as np
from gymnasium import spaces


class Luck(gymnasium.Env):
    """A cue names the right action of four, which earns 1; luck adds 4 to all rewards of an episode, or takes 4."""

    observation_space = spaces.Dict({"cue": spaces.Box(0, 1, (4,), np.float32), "luck": spaces.Box(-1, 1, (1,))})
    action_space = spaces.Discrete(4)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._luck, self._taken = self.np_random.choice([-1.0, 1.0]), []
        return self._draw(), {}

    def step(self, action):
        self._taken.append(float(action == self._right))
        info = {"right": np.mean(self._taken)}
        return self._draw(), self._taken[-1] + 4.0 * self._luck, len(self._taken) == 16, False, info

    def _draw(self):
        self._right = int(self.np_random.integers(4))
        return {"cue": np.eye(4, dtype=np.float32)[self._right], "luck": np.array([self._luck], np.float32)}


gymnasium.register("Luck-v0", Luck)
