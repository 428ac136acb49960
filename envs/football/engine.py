"""An environment on top of gfootball's engine, without that package's own Gym environments."""

from __future__ import annotations

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

gym_notices.notices.notices.clear()  # gfootball imports Gym (unused here), which would print that it is unmaintained
from gfootball.env import config as gfootball_config  # noqa: E402
from gfootball.env import football_env_core  # noqa: E402


class FootballEnv(gymnasium.Env):
    """One match as configured by `Football`. A process may have several."""

    def __init__(self, scenario: str, map_shape: tuple[int, int], checkpoints: bool):
        """
        Args:
          scenario: one of `SCENARIOS`.
          map_shape: height and width of the maps.
          checkpoints: whether to add `CheckpointRewards`.
        """
        self.observation_space = observation_space(map_shape)
        self.action_space = gymnasium.spaces.Discrete(NUM_ACTIONS)
        self._config = gfootball_config.Config(
            {
                "level": scenario,
                "players": ["agent:left_players=1"],
                "dump_full_episodes": False,
                "dump_scores": False,
                "write_video": False,
                "game_engine_random_seed": 0,
            }
        )
        self._engine = football_env_core.FootballEnvCore(self._config)
        self._checkpoints = CheckpointRewards(1) if checkpoints else None
        self._rng = np.random.default_rng()
        self._stacked = np.zeros(map_shape, np.uint16)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict]:
        """Starts a match; `seed` also determines all later matches that start without one.

        The option `engine_seed` sets the engine's own seed for this match.
        """
        if seed is not None:
            self._rng = np.random.default_rng(seed)
        drawn = int(self._rng.integers(2_000_000_000))
        engine_seed = (options or {}).get("engine_seed", drawn)
        self._config.update({"game_engine_random_seed": engine_seed, "reverse_team_processing": bool(engine_seed % 2)})
        self._engine.reset()
        self._stacked = first_map(self._map(self._engine.observation()))
        if self._checkpoints:
            self._checkpoints.begin(np.ones(1, bool))
        return self._stacked, {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict]:
        """Plays one step of the engine (a tenth of a second of the match)."""
        observation, score, done, _ = self._engine.step([int(action)])
        self._stacked = stack_map(self._stacked, self._map(observation))
        reward = float(score)
        if self._checkpoints:
            active = observation["left_agent_controlled_player"][0]
            owner = observation["ball_owned_team"], observation["ball_owned_player"]
            ball = np.asarray(observation["ball"][:2])
            has_ball = owner == (LEFT_TEAM, active)
            reward += float(self._checkpoints.step(np.array([score]), ball[None], np.array([has_ball]))[0])
        return self._stacked, reward, bool(done), False, {}

    def close(self) -> None:
        """Releases the engine."""
        self._engine.close()

    def _map(self, observation: dict[str, Any]) -> np.ndarray:
        """The current map, uint16 [H, W], with one bit for each of the `LAYERS`."""
        left = np.asarray(observation["left_team"])
        active = observation["left_agent_controlled_player"][0]
        shown = (left, observation["right_team"], observation["ball"][:2], left[active] if active >= 0 else ())
        bits = np.zeros(self._stacked.shape, np.uint16)
        height, width = bits.shape
        assert len(shown) == LAYERS
        for layer, points in enumerate(shown):
            x, y = np.asarray(points, float).reshape(-1, 2).T
            # The pitch is 2 wide and 2 / 2.25 high, around (0, 0).
            columns = np.clip(((x + 1) / 2 * width).astype(int), 0, width - 1)
            rows = np.clip(((y * 2.25 + 1) / 2 * height).astype(int), 0, height - 1)
            bits[rows, columns] |= np.uint16(1 << layer)
        return bits
