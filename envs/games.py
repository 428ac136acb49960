"""Games of several players as vector environments in which each player is a row.

Shapes: G games of P players, and E = G * P rows, in the order that `EnvConfig.players` defines.
"""

from __future__ import annotations

import abc
from collections.abc import Sequence
from typing import Any, NamedTuple

import gymnasium
import numpy as np
from gymnasium.vector.utils import concatenate, create_empty_array

from seed_rl.envs.base import UniformVectorEnv


class Played(NamedTuple):
    """The result of a step, by seat."""

    observations: Sequence[Any]
    """One observation per seat; when the game is over, the last ones."""
    rewards: Sequence[float]
    terminated: Sequence[bool]
    """False before the end of the game; then each player is either terminated or truncated."""
    truncated: Sequence[bool]


class Game(abc.ABC):
    """One game of P players, who have the same spaces. Players are numbered by their seats in the game."""

    observation_space: gymnasium.Space[Any]
    """Space of one player's observations."""
    action_space: gymnasium.Space[Any]
    """Space of one player's actions."""
    players: int
    """P."""

    @abc.abstractmethod
    def reset(self, seed: int) -> Sequence[Any]:
        """Starts an episode, which the seed determines; returns an observation per seat."""

    @abc.abstractmethod
    def step(self, actions: Sequence[Any]) -> Played:
        """Takes a step with an action per seat."""

    def seating(self, rng: np.random.Generator) -> np.ndarray:
        """Draws the seat of each player for an episode, int [P]; by default, every order is equally likely."""
        return rng.permutation(self.players)

    def render(self) -> Any:
        """Draws the game; None if it can't be drawn."""
        return None

    def close(self) -> None:  # noqa: B027 (few games need it)
        """Releases the game's resources."""


class GamesVectorEnv(UniformVectorEnv):
    """Games with SAME_STEP autoreset. The seed of a game's first row determines its seatings and its episodes."""

    def __init__(self, games: Sequence[Game]):
        self._games = games
        self._players = games[0].players
        super().__init__(len(games) * self._players, games[0].observation_space, games[0].action_space)
        self._rngs = [np.random.default_rng() for _ in games]
        self._seats = np.zeros((len(games), self._players), np.int64)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Starts new episodes of all games."""
        if seed is not None:
            self._rngs = [np.random.default_rng(seed + n * self._players) for n in range(len(self._games))]
        return self._batch([each for n in range(len(self._games)) for each in self._begin(n)]), {}

    def step(self, actions: np.ndarray) -> tuple[Any, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Steps all games with actions [E, ...]."""
        observations: list[Any] = []
        reward = np.zeros(self.num_envs)
        ends = np.zeros((2, self.num_envs), bool)
        last = np.full(self.num_envs, None)
        for n, (game, seats) in enumerate(zip(self._games, self._seats.copy(), strict=True)):
            rows = slice(n * self._players, (n + 1) * self._players)
            played = game.step(actions[rows][np.argsort(seats)])
            own = [played.observations[seat] for seat in seats]
            reward[rows] = np.asarray(played.rewards)[seats]
            ends[:, rows] = np.stack([played.terminated, played.truncated])[:, seats]
            if ends[:, rows].any():
                last[rows] = np.fromiter(own, object, len(own))
                own = self._begin(n)
            observations += own
        return self._batch(observations), reward, *ends, {"final_obs": last} if ends[1].any() else {}

    def render(self) -> Any:
        """Draws each game."""
        return [game.render() for game in self._games]

    def close_extras(self, **kwargs: Any) -> None:
        """Closes all games."""
        for game in self._games:
            game.close()

    def _begin(self, n: int) -> list[Any]:
        """Starts an episode of a game with new seats; returns an observation per player."""
        rng, game = self._rngs[n], self._games[n]
        self._seats[n] = game.seating(rng)
        observations = game.reset(int(rng.integers(2_000_000_000)))
        return [observations[seat] for seat in self._seats[n]]

    def _batch(self, observations: Sequence[Any]) -> Any:
        space: Any = self.single_observation_space
        return concatenate(space, observations, create_empty_array(space, len(observations)))
