"""The environment: any Gymnasium environment will do."""

import gymnasium
import numpy as np


class CorridorEnv(gymnasium.Env):
    """Walk to the right until the end, where the reward is; each step costs a little."""

    def __init__(self, length: int):
        self.observation_space = gymnasium.spaces.Box(0, 255, (1, length, 1), np.uint8)
        self.action_space = gymnasium.spaces.Discrete(2)
        self.length = length

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place = int(self.np_random.integers(3))
        return self._board(), {}

    def step(self, action):
        self.place = max(0, self.place + (1 if action else -1))
        arrived = self.place == self.length - 1
        return self._board(), float(arrived) - 0.01, arrived, False, {}

    def _board(self):
        board = np.zeros((1, self.length, 1), np.uint8)
        board[0, self.place] = 255
        return board
