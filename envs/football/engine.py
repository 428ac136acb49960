"""A game on top of gfootball's engine, without that package's own Gym environments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gym_notices.notices
import gymnasium
import numpy as np

from seed_rl.envs.football import NUM_ACTIONS
from seed_rl.envs.football.maps import (
    LAYERS,
    LEFT_TEAM,
    CheckpointRewards,
    first_map,
    observation_space,
    stack_map,
)
from seed_rl.envs.games import Game, Played

gym_notices.notices.notices.clear()  # gfootball imports Gym (unused here), which would print that it is unmaintained
from gfootball.env import config as gfootball_config  # noqa: E402
from gfootball.env import football_env_core, observation_rotation  # noqa: E402


class FootballGame(Game):
    """One match as configured by `Football`, with the left team's players first. A process may have several.

    Players of the right team observe and act as if they played from left to right.
    """

    def __init__(self, scenario: str, map_shape: tuple[int, int], checkpoints: bool, left: int = 1, right: int = 0):
        """
        Args:
          scenario: one of `SCENARIOS`.
          map_shape: height and width of the maps.
          checkpoints: whether to add `CheckpointRewards`.
          left: number of the left team's players that are controlled.
          right: number of the right team's.
        """
        self.observation_space = observation_space(map_shape)
        self.action_space = gymnasium.spaces.Discrete(NUM_ACTIONS)
        self.players, self._left = left + right, left
        self._config = gfootball_config.Config(
            {
                "level": scenario,
                "players": [f"agent:left_players={left},right_players={right}"],
                "dump_full_episodes": False,
                "dump_scores": False,
                "write_video": False,
                "game_engine_random_seed": 0,
            }
        )
        self._engine = football_env_core.FootballEnvCore(self._config)
        self._checkpoints = CheckpointRewards(self.players) if checkpoints else None
        self._stacked = np.zeros((self.players, *map_shape), np.uint16)

    def seating(self, rng: np.random.Generator) -> np.ndarray:
        """Draws which team plays on the left, if both have as many players; the first half of them is a team."""
        swapped = 2 * self._left == self.players and rng.integers(2)
        return np.roll(np.arange(self.players), self._left if swapped else 0)

    def reset(self, seed: int) -> np.ndarray:
        """Starts the match that the engine has for a seed below 2e9."""
        self._config.update({"game_engine_random_seed": seed, "reverse_team_processing": bool(seed % 2)})
        self._engine.reset()
        self._stacked = first_map(self._maps(self._views(self._engine.observation())))
        if self._checkpoints:
            self._checkpoints.begin(np.ones(self.players, bool))
        return self._stacked

    def step(self, actions: Sequence[Any]) -> Played:
        """Plays one step of the engine (a tenth of a second of the match)."""
        turned = [observation_rotation.flip_single_action(int(each), self._config) for each in actions[self._left :]]
        observation, score, done, _ = self._engine.step([*map(int, actions[: self._left]), *turned])
        views = self._views(observation)
        self._stacked = stack_map(self._stacked, self._maps(views))
        scores = np.where(np.arange(self.players) < self._left, float(score), -float(score))
        rewards = scores
        if self._checkpoints:
            ball = np.stack([np.asarray(view["ball"][:2]) for view, _ in views])
            owners = [(view["ball_owned_team"], view["ball_owned_player"]) for view, _ in views]
            has_ball = np.array(
                [owner == (LEFT_TEAM, active) for owner, (_, active) in zip(owners, views, strict=True)]
            )
            rewards = scores + self._checkpoints.step(scores, ball, has_ball)
        return Played(self._stacked, rewards, [bool(done)] * self.players, [False] * self.players)

    def close(self) -> None:
        """Releases the engine."""
        self._engine.close()

    def _views(self, observation: dict[str, Any]) -> list[tuple[dict[str, Any], int]]:
        """The observation as each player sees it, playing from left to right, and the player's number in its team."""
        views = [(observation, active) for active in observation["left_agent_controlled_player"]]
        if self._left == self.players:
            return views
        turned = observation_rotation.flip_observation(observation, self._config)
        return views + [(turned, active) for active in turned["left_agent_controlled_player"]]

    def _maps(self, views: Sequence[tuple[dict[str, Any], int]]) -> np.ndarray:
        """The current maps, uint16 [P, H, W], with one bit for each of the `LAYERS`."""
        maps = np.zeros(self._stacked.shape, np.uint16)
        height, width = maps.shape[1:]
        for bits, (observation, active) in zip(maps, views, strict=True):
            left = np.asarray(observation["left_team"])
            shown = (left, observation["right_team"], observation["ball"][:2], left[active] if active >= 0 else ())
            assert len(shown) == LAYERS
            for layer, points in enumerate(shown):
                x, y = np.asarray(points, float).reshape(-1, 2).T
                # The pitch is 2 wide and 2 / 2.25 high, around (0, 0).
                columns = np.clip(((x + 1) / 2 * width).astype(int), 0, width - 1)
                rows = np.clip(((y * 2.25 + 1) / 2 * height).astype(int), 0, height - 1)
                bits[rows, columns] |= np.uint16(1 << layer)
        return maps
