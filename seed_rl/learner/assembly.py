"""Puts acting and what learns from it together around one store of unrolls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from seed_rl.agents.base import Agent, ReplayAgent
from seed_rl.buffers.placement import StoreSize, place_store, sequence_nbytes
from seed_rl.buffers.prioritized_replay import PrioritizedReplay
from seed_rl.devices import HOST
from seed_rl.experiment import Experiment
from seed_rl.inference.act_step import unroll_step_spec
from seed_rl.inference.acting import Acting, acting_slots
from seed_rl.inference.episodes import Episodes
from seed_rl.learner.replicas import Replicas
from seed_rl.learner.sources import FifoSource, ReplaySource, Source
from seed_rl.specs import EnvSpec


def assemble(
    experiment: Experiment,
    agent: Agent,
    env_spec: EnvSpec,
    seed: int,
    on_episodes: Callable[[Episodes], None] = lambda episodes: None,
    replicas: Replicas | None = None,
) -> tuple[Acting, Source]:
    """The acting half of a learner process and the source of its batches.

    Args:
      experiment: sizes and waits; with a replay or without.
      agent: chooses the actions.
      env_spec: of the environments it acts in.
      seed: of all that is drawn; another one for each start of a run.
      on_episodes: called on the inference thread with episodes that ended.
      replicas: where it acts, and where batches go; None: all on one device.

    Raises:
      DoesNotFit: the replay needs more memory than there is.
    """
    config = experiment.replay
    device = replicas.acting_device if replicas else ""
    if config is None:
        acting = Acting(experiment, agent, env_spec, seed, experiment.batch_size, device, device, on_episodes)
        return acting, FifoSource(**_shared(acting, replicas), batch_size=experiment.batch_size)

    assert isinstance(agent, ReplayAgent), "Experiment checks that only such agents get a replay"
    besides = ReplaySource.INSERT_AT_MOST
    nbytes = sequence_nbytes(unroll_step_spec(agent, env_spec), agent.length)
    store_device = place_store(
        StoreSize(config.capacity, acting_slots(experiment, agent) + besides + 1, nbytes), config.placement
    )
    if store_device != HOST and device:
        store_device = device
    acting = Acting(experiment, agent, env_spec, seed, config.capacity + besides, device, store_device, on_episodes)
    replay = PrioritizedReplay(
        config.capacity,
        acting.pool.num_slots,
        priority_exponent=config.priority_exponent,
        importance_exponent=config.importance_exponent,
        seed=seed,
    )
    return acting, ReplaySource(
        **_shared(acting, replicas), batch_size=experiment.batch_size, replay=replay, agent=agent, config=config
    )


def _shared(acting: Acting, replicas: Replicas | None) -> dict[str, Any]:
    """What every source takes of the acting half."""
    return {
        "store": acting.store,
        "read": replicas.reader(acting.store) if replicas else acting.store.read,
        "pool": acting.pool,
        "queue": acting.queue,
        "slot_versions": acting.cursor.slot_versions,
    }
