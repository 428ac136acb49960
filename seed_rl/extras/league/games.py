"""What a league changes in a run: who plays, what is reported, and what happens when acting gets new weights."""

import logging
import os
from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from seed_rl.buffers.unroll_store import UnrollStore
from seed_rl.extras.league.act_step import LeagueActStep, Seats
from seed_rl.extras.league.pool import Pool
from seed_rl.extras.league.settings import League
from seed_rl.learner.progress import Progress
from seed_rl.runs.assembly import Assembly, Parts
from seed_rl.weights.checkpoints import name_variables

_log = logging.getLogger(__name__)


def with_league(settings: League, assembly: Assembly) -> Assembly:
    """Return the assembly of a run in whose games members of a league, kept in `league/`, play some rows."""
    acting: list[LeagueActStep] = []
    seats: Seats
    pool: Pool

    def own(parts: Parts) -> np.ndarray:
        nonlocal seats, pool
        seats = Seats.of(parts.experiment, settings.share, len(parts.replicas.inference_devices))
        training = parts.experiment.actors.num_training_envs
        if settings.share and not seats.away[:training].any():
            games = training // parts.experiment.env.players
            _log.warning(
                "League.share = %g of %d training games is less than one: none is against members",
                settings.share,
                games,
            )
        pool = Pool(os.path.join(parts.directory, "league"), settings)
        return ~seats.away

    def progress(parts: Parts) -> Progress:
        return LeagueProgress(parts.experiment.actors.num_training_envs, parts.own, pool)

    def act_step(parts: Parts, number: int, store: UnrollStore) -> LeagueActStep:
        with tf.device(parts.replicas.inference_devices[number]):
            frozen = [parts.experiment.build_agent() for _ in range(settings.sets)]
        acting.append(LeagueActStep(parts, number, store, frozen, seats))
        return acting[-1]

    def finish(parts: Parts) -> None:
        """Let the pool draw opponents whenever acting gets new weights."""
        copy_weights, weights = parts.copy_weights, name_variables("agent", parts.agent.variables)

        def refresh() -> None:
            copy_weights()
            pool.refresh(parts.progress.counters, weights, acting, parts.seed)

        parts.copy_weights = refresh
        assembly.finish(parts)

    return assembly._replace(own=own, progress=progress, act_step=act_step, finish=finish)


class LeagueProgress(Progress):
    """Progress with the results and the names of members, which checkpoints keep."""

    def __init__(self, num_training_envs: int, own: np.ndarray, pool: Pool):
        super().__init__(num_training_envs, own)
        self._pool = pool

    def new_evaluation(self) -> None:
        """Return None: opponents change, so that returns at different times can't be compared."""
        return None

    def gauges(self) -> dict[str, float]:
        return {**super().gauges(), **self._pool.gauges()}

    def get_state(self) -> dict[str, Any]:
        return {**super().get_state(), "league": self._pool.get_state()}

    def set_state(self, state: Mapping[str, Any]) -> None:
        self._pool.set_state(state["league"])
        super().set_state(state)
