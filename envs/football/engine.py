"""A game on top of gfootball's engine, without that package's own Gym environments."""

from collections.abc import Sequence
from typing import Any

import gym_notices.notices
import gymnasium
import numpy as np

from seed_rl.envs.football import maps
from seed_rl.envs.vector.games import Game

gym_notices.notices.notices.clear()  # gfootball imports Gym (unused here), which would print that it is unmaintained
from gfootball.env import config as gfootball_config  # noqa: E402
from gfootball.env import football_env_core, observation_rotation  # noqa: E402


class FootballGame(Game):
    """One match as configured by `Football`, with the left team's players first. A process may have several.

    Players of the right team observe and act as if they played from left to right.
    """

    def __init__(self, settings: Any):  # Football, which imports this module
        self.observation_space = maps.observation_space(settings.map_shape)
        self.action_space = gymnasium.spaces.Discrete(maps.NUM_ACTIONS)
        self.players, self._left = settings.players, settings.left_players
        agents = f"agent:left_players={self._left},right_players={settings.right_players}"
        values = {"level": settings.scenario, "players": [agents], "game_engine_random_seed": 0}
        self._config = gfootball_config.Config(values)
        self.env = football_env_core.FootballEnvCore(self._config)
        self._checkpoints = maps.CheckpointRewards(self.players) if "checkpoints" in settings.rewards else None
        self._stacked = np.zeros((self.players, *settings.map_shape), np.uint16)

    def seating(self, rng: np.random.Generator) -> np.ndarray:
        """Draws which team plays on the left, if both have as many players; the first half of them is a team."""
        swapped = 2 * self._left == self.players and rng.integers(2)
        return np.roll(np.arange(self.players), self._left if swapped else 0)

    def reset(self, seed: int) -> Any:
        """Start the match that the engine has for a seed below 2e9."""
        self._config.update({"game_engine_random_seed": seed, "reverse_team_processing": bool(seed % 2)})
        self.env.reset()
        self._stacked = maps.first_map(self._maps(self._views(self.env.observation())))
        if self._checkpoints:
            self._checkpoints.begin(np.ones(self.players, bool))
        return self._stacked

    def step(self, actions: np.ndarray) -> tuple[Any, Any, Any, Any]:
        """Plays one step of the engine (a tenth of a second of the match)."""
        turned = [observation_rotation.flip_single_action(int(each), self._config) for each in actions[self._left :]]
        observation, score, done, _ = self.env.step([*map(int, actions[: self._left]), *turned])
        views = self._views(observation)
        self._stacked = maps.stack_map(self._stacked, self._maps(views))
        rewards = np.where(np.arange(self.players) < self._left, float(score), -float(score))
        if self._checkpoints:
            ball = np.stack([view["ball"][:2] for view, _ in views])
            has_ball = [
                (v["ball_owned_team"], v["ball_owned_player"]) == (maps.LEFT_TEAM, active) for v, active in views
            ]
            rewards = rewards + self._checkpoints.step(rewards, ball, np.array(has_ball))
        return self._stacked, rewards, [bool(done)] * self.players, [False] * self.players

    def _views(self, observation: dict[str, Any]) -> list[tuple[dict[str, Any], int]]:
        """The observation as each player sees it, playing from left to right, and the player's number in its team."""
        both = observation, observation_rotation.flip_observation(observation, self._config)
        return [(view, active) for view in both for active in view["left_agent_controlled_player"]]

    def _maps(self, views: Sequence[tuple[dict[str, Any], int]]) -> np.ndarray:
        """The current maps, uint16 [P, H, W], with one bit for each layer."""
        current: np.ndarray = np.zeros(self._stacked.shape, np.uint16)
        height, width = current.shape[1:]
        for bits, (observation, active) in zip(current, views, strict=True):
            left = np.asarray(observation["left_team"])
            shown = (left, observation["right_team"], observation["ball"][:2], left[active] if active >= 0 else ())
            for layer, points in enumerate(shown):
                x, y = np.asarray(points, float).reshape(-1, 2).T
                # The pitch is 2 wide and 2 / 2.25 high, around (0, 0).
                columns = np.clip(((x + 1) / 2 * width).astype(int), 0, width - 1)
                rows = np.clip(((y * 2.25 + 1) / 2 * height).astype(int), 0, height - 1)
                bits[rows, columns] |= np.uint16(1 << layer)
        return current
