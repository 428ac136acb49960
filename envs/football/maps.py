"""Super Mini Maps packed into bits, checkpoint rewards and repeated actions, for both backends."""

from typing import Any

import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv, VectorWrapper
from gymnasium.vector.utils import batch_space

NUM_ACTIONS = 19
LAYERS = 4
"""Number of binary planes in a map: left team, right team, ball, active player."""
STACK = 4
"""Number of maps in an observation, oldest in the lowest bits; an episode starts with copies of its first map."""

LEFT_TEAM = 0
_IDLE = 0  # the action
_BALL = 2  # the ball's layer
_GRASS = (32, 96, 48)
_COLOURS = ((240, 200, 40), (220, 60, 50), (255, 255, 255), (70, 150, 255))
"""The colour of each layer: yellow, red, white and blue."""


def observation_space(map_shape: tuple[int, int]) -> spaces.Box:
    """The observation space of one environment: 16 binary planes in uint16 [height, width]."""
    return spaces.Box(0, np.iinfo(np.uint16).max, map_shape, np.uint16)


def stack_map(stacked: np.ndarray, newest: np.ndarray) -> np.ndarray:
    """Replace the oldest map in observations, uint16 [..., H, W], with the newest, `LAYERS` bits per pixel."""
    return (stacked >> LAYERS) | (newest << (LAYERS * (STACK - 1)))


def first_map(newest: np.ndarray) -> np.ndarray:
    """The observation at the start of an episode: `STACK` copies of the first map."""
    return newest * np.uint16(sum(1 << (LAYERS * k) for k in range(STACK)))


def newest_in_colours(stacked: np.ndarray) -> np.ndarray:
    """Draw the newest map of an observation [H, W] in colour, uint8 [H, W, 3]."""
    picture = np.empty((*stacked.shape, 3), np.uint8)
    picture[:] = _GRASS
    for layer in (0, 1, 3, 2):  # the ball lies on top
        picture[(stacked >> (LAYERS * (STACK - 1) + layer)) & 1 == 1] = _COLOURS[layer]
    return picture


class CheckpointRewards:
    """Rewards in N environments for bringing the ball closer to the opponents' goal.

    Ten circles surround the centre of the goal, with radii from 0.99 down to 0.19 of half the pitch's length. Each is
    worth 0.1, once per episode, when the player with the ball first enters it; a goal collects all remaining ones.
    """

    COUNT = 10
    REWARD = 0.1
    _RADII = 0.99 - 0.8 / (COUNT - 1) * np.arange(COUNT)

    def __init__(self, num_envs: int):
        self._collected = np.zeros(num_envs, np.int64)

    def begin(self, which: np.ndarray) -> None:
        """Start new episodes in the environments selected by `which`, bool [N]."""
        self._collected[which] = 0

    def step(self, score: np.ndarray, ball: np.ndarray, has_ball: np.ndarray) -> np.ndarray:
        """The additional rewards of a step, float64 [N].

        `score` is the reward for goals, float [N], `ball` the ball's position, float [N, 2], where the opponents' goal
        is at (1, 0), and `has_ball`, bool [N], whether the active player has the ball.
        """
        distance = np.linalg.norm(ball - np.array([1.0, 0.0]), axis=-1)
        reached = np.count_nonzero(distance[:, None] <= self._RADII, axis=-1)
        now = np.where(has_ball, np.maximum(self._collected, reached), self._collected)
        now = np.where(score == 1, self.COUNT, now)
        gained = self.REWARD * (now - self._collected)
        self._collected = now
        return gained


class PackedMaps(VectorWrapper):
    """Stacks EnvPool's maps, uint8 [E, H, W, 4] of 0 and 255, into uint16 [E, H, W]; may add `CheckpointRewards`.

    EnvPool has NEXT_STEP autoreset. With `ends_late`, a match ends with the first step of the next one, as with
    SAME_STEP autoreset, and that step's reward is zero.

    EnvPool reports neither the active player nor the ball's exact position, so a checkpoint is collected when any
    player of the left team has the ball, at the position of the ball's pixel.
    """

    def __init__(self, env: VectorEnv, checkpoints: bool, ends_late: bool = False):
        super().__init__(env)
        assert isinstance(env.single_observation_space, spaces.Box)
        height, width, _ = env.single_observation_space.shape
        if ends_late:
            self.metadata = {**env.metadata, "autoreset_mode": AutoresetMode.SAME_STEP}
        self._ends_late = ends_late
        self.single_observation_space = observation_space((height, width))
        self.observation_space = batch_space(self.single_observation_space, env.num_envs)
        self._checkpoints = CheckpointRewards(env.num_envs) if checkpoints else None
        self._stacked = np.zeros((env.num_envs, height, width), np.uint16)
        self._ended = np.zeros(env.num_envs, bool)

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict[str, Any]]:
        maps, _ = self.env.reset(seed=seed, options=options)
        self._ended = np.zeros(self.num_envs, bool)
        return self._stack(maps, ~self._ended), {}

    def step(self, actions: np.ndarray) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        maps, reward, terminated, truncated, info = self.env.step(actions)
        begins, self._ended = self._ended, terminated | truncated
        if self._checkpoints:
            score = np.round(reward).astype(int)
            has_ball = np.asarray(info["ball_owned_team"]).reshape(-1) == LEFT_TEAM
            reward = reward + self._checkpoints.step(score, _ball(maps), has_ball & ~begins)
        ends = begins if self._ends_late else self._ended
        return self._stack(maps, begins), reward, ends, np.zeros(self.num_envs, bool), {}  # a match ends with its time

    def _stack(self, maps: np.ndarray, begins: np.ndarray) -> np.ndarray:
        bits = np.array([1 << layer for layer in range(LAYERS)], np.uint8)
        newest = ((maps > 0) @ bits).astype(np.uint16)
        if self._checkpoints:
            self._checkpoints.begin(begins)
        self._stacked = np.where(begins[:, None, None], first_map(newest), stack_map(self._stacked, newest))
        return self._stacked


class RepeatedActions(VectorWrapper):
    """Repeats each action and adds up the rewards of matches, which have SAME_STEP autoreset and are never truncated.

    A match that begins before the last repetition idles for the rest of them, without rewards.
    """

    def __init__(self, env: VectorEnv, repeats: int):
        super().__init__(env)
        self._repeats = repeats

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        reward, ended = np.zeros(self.num_envs), np.zeros(self.num_envs, bool)
        for _ in range(self._repeats):
            observation, further, ends, truncated, info = self.env.step(np.where(ended, _IDLE, actions))
            reward, ended = reward + np.where(ended, 0.0, further), ended | ends
        return observation, reward, ended, truncated, info


def _ball(maps: np.ndarray) -> np.ndarray:
    """The x and y of the centre of the ball's pixel, float [E, 2]."""
    num_envs, height, width, _ = maps.shape
    pixel = maps[..., _BALL].reshape(num_envs, -1).argmax(axis=1)
    x = (pixel % width + 0.5) / width * 2 - 1
    y = ((pixel // width + 0.5) / height * 2 - 1) / 2.25
    return np.stack([x, y], axis=-1)
