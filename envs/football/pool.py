"""Football from EnvPool: the same engine, prebuilt and stepped by native threads."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import VectorEnv

from seed_rl.envs.football.shared import LAYERS, CheckpointRewards, first_map, observation_space, stack_map

_LEFT_TEAM = 0
_BALL = 2  # its layer


class PackedMaps(gymnasium.vector.VectorWrapper):
    """Stacks maps uint8 [E, H, W, 4] of 0 and 255 into uint16 [E, H, W], and adds the rewards of checkpoints.

    EnvPool reports neither the active player nor the ball's exact position: a checkpoint is collected when any player
    of the left team has the ball, by the position of the ball's pixel.
    """

    def __init__(self, env: VectorEnv, checkpoints: bool):
        """
        Args:
          env: a SAME_STEP environment.
          checkpoints: adds `CheckpointRewards`.
        """
        super().__init__(env)
        assert isinstance(env.single_observation_space, gymnasium.spaces.Box)
        height, width, layers = env.single_observation_space.shape
        assert layers == LAYERS
        self.single_observation_space = observation_space((height, width))
        self.observation_space = gymnasium.vector.utils.batch_space(self.single_observation_space, env.num_envs)
        self._checkpoints = CheckpointRewards(env.num_envs) if checkpoints else None
        self._stacked = np.zeros((env.num_envs, height, width), np.uint16)

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict[str, Any]]:
        """Starts new matches."""
        maps, _ = self.env.reset(seed=seed, options=options)
        self._stacked = first_map(_pack(maps))
        if self._checkpoints:
            self._checkpoints.begin(np.ones(self.num_envs, bool))
        return self._stacked, {}

    def step(self, actions: np.ndarray) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Steps all matches."""
        maps, reward, terminated, truncated, info = self.env.step(actions)
        newest, done = _pack(maps), terminated | truncated
        if self._checkpoints:
            score = np.round(reward).astype(int)
            has_ball = np.asarray(info["ball_owned_team"]).reshape(-1) == _LEFT_TEAM
            reward = reward + self._checkpoints.step(score, _ball(maps), has_ball & ~done)
            self._checkpoints.begin(done)
        stacked = stack_map(self._stacked, newest)
        self._stacked = np.where(done[:, None, None], first_map(newest), stacked)
        return self._stacked, reward, terminated, truncated, {}


def _pack(maps: np.ndarray) -> np.ndarray:
    """uint16 [E, H, W] with a bit for each layer."""
    bits = np.array([1 << layer for layer in range(LAYERS)], np.uint8)
    return ((maps > 0) @ bits).astype(np.uint16)


def _ball(maps: np.ndarray) -> np.ndarray:
    """float [E, 2]: x and y of the centre of the ball's pixel."""
    num_envs, height, width, _ = maps.shape
    pixel = maps[..., _BALL].reshape(num_envs, -1).argmax(axis=1)
    x = (pixel % width + 0.5) / width * 2 - 1
    y = ((pixel // width + 0.5) / height * 2 - 1) / 2.25
    return np.stack([x, y], axis=-1)
