"""Which rows of the environments are played by whom."""

from typing import NamedTuple, Self

import numpy as np

from seed_rl.experiment import Experiment


class Seats(NamedTuple):
    """The rows of games of several players, by environment id; a game's rows are consecutive ids of a device."""

    away: np.ndarray
    """bool [N]: whether the row is played by members of the league."""
    first_rows: np.ndarray
    """int [N]: id of the first row of the game to which the row belongs."""
    shares: np.ndarray
    """float [N]: share of the row's reward in the result of a game with opponents, negative for these."""

    @classmethod
    def of(cls, experiment: Experiment, share: float, num_devices: int) -> Self:
        """Give opponents a share of the training games, and all for evaluation, on each of D inference devices."""
        actors, env = experiment.actors, experiment.env
        ids = np.arange(actors.num_envs)
        rows = ids // num_devices  # of the device
        games, players = np.divmod(rows, env.players)
        spread = np.floor((games + 1) * share) > np.floor(games * share)
        away = (players >= env.home_players) & (spread | (ids >= actors.num_training_envs))
        shares = np.where(away, -1 / (env.players - env.home_players), 1 / env.home_players)
        return cls(away, ids - players * num_devices, shares)
