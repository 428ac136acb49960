"""What a league changes in a run: who plays, what is reported, and what happens when acting gets new weights."""

import functools
import os
from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from seed_rl.buffers.unroll_store import UnrollStore
from seed_rl.extras.league.act_step import LeagueActStep
from seed_rl.extras.league.pool import Pool
from seed_rl.extras.league.seats import Seats
from seed_rl.extras.league.settings import League
from seed_rl.learner.progress import Progress
from seed_rl.runs.assembly import Assembly, Parts
from seed_rl.weights.checkpoints import name_variables


def with_league(settings: League, assembly: Assembly) -> Assembly:
    """Return the assembly of a run in whose games members of a league play some rows."""
    league = _League(settings)
    return assembly._replace(
        own=league.own,
        progress=league.progress,
        act_step=league.act_step,
        finish=functools.partial(league.finish, assembly),
    )


class _League:
    """The parts that replace those of a plain run. Members are in `league/` of the log directory."""

    def __init__(self, settings: League):
        self._settings = settings
        self._acting: list[LeagueActStep] = []

    def own(self, parts: Parts) -> np.ndarray:
        self._seats = Seats.of(parts.experiment, self._settings.share, len(parts.replicas.inference_devices))
        self._pool = Pool(os.path.join(parts.directory, "league"), self._settings)
        return ~self._seats.away

    def progress(self, parts: Parts) -> Progress:
        return LeagueProgress(parts.experiment.actors.num_training_envs, parts.own, self._pool)

    def act_step(self, parts: Parts, number: int, store: UnrollStore) -> LeagueActStep:
        device = parts.replicas.inference_devices[number]
        with tf.device(device):
            frozen = [parts.experiment.build_agent() for _ in range(self._settings.sets)]
        given = (store, parts.sizes, parts.seed_of(number), device, number)
        self._acting.append(LeagueActStep(parts.agents[number], frozen, self._seats, *given))
        return self._acting[-1]

    def finish(self, assembly: Assembly, parts: Parts) -> None:
        """Let the pool draw opponents whenever acting gets new weights."""
        copy_weights, weights = parts.copy_weights, name_variables("agent", parts.agent.variables)

        def refresh() -> None:
            counters = parts.progress.counters
            copy_weights()
            self._pool.refresh(counters.learner_updates, counters.env_frames, weights, self._acting, parts.seed)

        parts.copy_weights = refresh
        assembly.finish(parts)


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
