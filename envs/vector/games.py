"""Vector environments with a row for each player: G games of P players, and so E = G * P rows."""

import abc
import copy
from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector.utils import concatenate, create_empty_array, iterate

from seed_rl.envs.base import UniformVectorEnv


class Game(abc.ABC):
    """One game of P players, numbered by their seats; the spaces are those of any one player."""

    env: Any
    """What has the methods `render` and `close`."""
    observation_space: gymnasium.Space
    action_space: gymnasium.Space
    players: int

    @abc.abstractmethod
    def reset(self, seed: int) -> Sequence[Any]:
        """Start an episode, which the seed determines; return an observation per seat."""

    @abc.abstractmethod
    def step(self, actions: np.ndarray) -> tuple[Sequence[Any], Sequence[float], Sequence[bool], Sequence[bool]]:
        """Take a step with an action per seat; return observation, reward, terminated and truncated per seat.

        All seats end together.
        """

    def seating(self, rng: np.random.Generator) -> np.ndarray:
        """Draws the seat of each player for an episode, int [P]; by default, every order is equally likely."""
        return rng.permutation(self.players)


class GamesVectorEnv(UniformVectorEnv):
    """Games with SAME_STEP autoreset. The seed of a game's first row determines its seatings and its episodes."""

    def __init__(self, games: Sequence[Game]):
        self._games, self._players = games, games[0].players
        super().__init__(len(games) * self._players, games[0].observation_space, games[0].action_space)
        self._rngs = [np.random.default_rng() for _ in games]
        self._seats = np.zeros((len(games), self._players), np.int64)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        if seed is not None:
            self._rngs = [np.random.default_rng(seed + n * self._players) for n in range(len(self._games))]
        return self._batch([each for n in range(len(self._games)) for each in self._begin(n)]), {}

    def step(self, actions: Any) -> tuple[Any, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        if not isinstance(actions, np.ndarray):  # of a Dict or Tuple: an object for each row
            actions = np.fromiter(iterate(self.action_space, actions), object, self.num_envs)
        observations: list[Any] = []
        numbers, last = np.zeros((3, self.num_envs)), np.full(self.num_envs, None)
        for n, own in enumerate(np.split(actions, len(self._games))):
            seats, first = self._seats[n].copy(), n * self._players
            seen, *results = self._games[n].step(own[np.argsort(seats)])
            numbers[:, first : first + self._players] = np.array(results, np.float64)[:, seats]
            by_player = [seen[seat] for seat in seats]
            if numbers[1:, first].any():
                # A reset may write the next observations into these.
                last[first : first + self._players] = np.fromiter(copy.deepcopy(by_player), object)
                by_player = self._begin(n)
            observations += by_player
        info = {"final_obs": last} if numbers[2].any() else {}
        return self._batch(observations), numbers[0], numbers[1] != 0, numbers[2] != 0, info

    def render(self) -> Any:
        return [game.env.render() for game in self._games]

    def close_extras(self, **kwargs: Any) -> None:
        for game in self._games:
            game.env.close()

    def _begin(self, n: int) -> list[Any]:
        """Start an episode of a game with new seats; return an observation per player."""
        rng, game = self._rngs[n], self._games[n]
        self._seats[n] = game.seating(rng)
        observations = game.reset(int(rng.integers(2_000_000_000)))
        return [observations[seat] for seat in self._seats[n]]

    def _batch(self, observations: Sequence[Any]) -> Any:
        space: Any = self.single_observation_space
        return concatenate(space, observations, create_empty_array(space, self.num_envs))  # type: ignore[arg-type]
