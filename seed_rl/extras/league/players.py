"""The learning agent and the members of its league, on all inference devices."""

import os
from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from seed_rl.agents.base import Agent
from seed_rl.buffers.unroll_store import UnrollStore
from seed_rl.experiment import Experiment
from seed_rl.experiment.sizes import Sizes
from seed_rl.extras.league.act_step import LeagueActStep
from seed_rl.extras.league.pool import Pool
from seed_rl.extras.league.seats import Seats
from seed_rl.extras.league.settings import League
from seed_rl.inference.players import Players
from seed_rl.weights.checkpoints import name_variables


class LeaguePlayers(Players):
    """See `Players`. Members are in `league/` of the log directory, results and names of members in checkpoints."""

    evaluates = False  # opponents change

    def __init__(self, settings: League, experiment: Experiment, logdir: str, num_devices: int):
        self._sets, self._experiment = settings.sets, experiment
        self._seats = Seats.of(experiment, settings.share, num_devices)
        self._pool = Pool(os.path.join(logdir, "league"), settings)
        self._acting: list[LeagueActStep] = []

    def act_step(
        self, agent: Agent, store: UnrollStore, sizes: Sizes, seed: int, device: str, number: int
    ) -> LeagueActStep:
        with tf.device(device):
            frozen = [self._experiment.build_agent() for _ in range(self._sets)]
        self._acting.append(LeagueActStep(agent, frozen, self._seats, store, sizes, seed, device, number))
        return self._acting[-1]

    def replaced(self, env_ids: np.ndarray) -> np.ndarray:
        return self._seats.away[env_ids]

    def refresh(self, updates: int, frames: int, agent: Agent, seed: int) -> None:
        self._pool.refresh(updates, frames, name_variables("agent", agent.variables), self._acting, seed)

    def gauges(self) -> dict[str, float]:
        return self._pool.gauges()

    def get_state(self) -> dict[str, Any]:
        return {"league": self._pool.get_state()}

    def set_state(self, state: Mapping[str, Any]) -> None:
        self._pool.set_state(state["league"])
