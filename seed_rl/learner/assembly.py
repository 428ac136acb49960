"""Puts acting and what learns from it together around stores of unrolls, one for each device that acts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import tensorflow as tf

from seed_rl.agents.base import Agent, ReplayAgent
from seed_rl.buffers.placement import StoreSize, place_store, sequence_nbytes
from seed_rl.buffers.prioritized_replay import PrioritizedReplay
from seed_rl.experiment import Experiment
from seed_rl.inference.act_step import unroll_step_spec
from seed_rl.inference.acting import Acting, acting_slots, central_inference
from seed_rl.inference.episodes import Episodes
from seed_rl.inference.service import CentralInference
from seed_rl.learner.joined_source import JoinedSource
from seed_rl.learner.replicas import Replicas, whole_reader
from seed_rl.learner.sources import FifoSource, Finished, ReplaySource, Source
from seed_rl.specs import EnvSpec
from seed_rl.types import Unroll


class Assembly(NamedTuple):
    """What a learner process has besides its agent and the updates."""

    service: CentralInference
    """Goes to an `ActorServer`."""
    acting: tuple[Acting, ...]
    """For each device that acts."""
    source: Source
    """Of batches."""


def assemble(
    experiment: Experiment,
    agents: Sequence[Agent],
    env_spec: EnvSpec,
    seed: int,
    on_episodes: Callable[[Episodes], None] = lambda episodes: None,
    replicas: Replicas | None = None,
) -> Assembly:
    """Acting and the source of what is learned from it.

    Args:
      experiment: sizes and waits; with a replay or without.
      agents: choose the actions, one for each device that acts.
      env_spec: of the environments they act in.
      seed: of all that is drawn; another one for each start of a run.
      on_episodes: called on the inference threads with episodes that ended.
      replicas: where it acts, and where batches go; None: all on one device.

    Raises:
      DoesNotFit: the replay needs more memory than there is.
    """
    devices = replicas.acting_devices if replicas else ("",)
    part = experiment.part(len(devices))
    acting, sources = [], []
    for number, (agent, device) in enumerate(zip(agents, devices, strict=True)):
        own_seed = (seed + number) % 2**31
        sharers = len(devices) - number  # of the host's memory: the others have theirs
        one = _acting(part, agent, env_spec, own_seed, device, len(devices), sharers, on_episodes)
        read = replicas.reader(one.store, number) if replicas else whole_reader(one.store)
        acting.append(one)
        sources.append(_source(part, agent, own_seed, one, read))
    service = central_inference(experiment, env_spec, seed, acting)
    return Assembly(service, tuple(acting), sources[0] if len(sources) == 1 else JoinedSource(sources))


def _acting(
    experiment: Experiment,
    agent: Agent,
    env_spec: EnvSpec,
    seed: int,
    device: str,
    num_devices: int,
    sharers: int,
    on_episodes: Callable[[Episodes], None],
) -> Acting:
    """Acting on one device, with room for what is learned from."""
    config = experiment.replay
    learner_slots, store_device = experiment.batch_size, device
    if config is not None:
        learner_slots = config.capacity + ReplaySource.INSERT_AT_MOST
        besides = acting_slots(experiment, agent, num_devices) + ReplaySource.INSERT_AT_MOST + 1
        nbytes = sequence_nbytes(unroll_step_spec(agent, env_spec), agent.length)
        store_device = place_store(StoreSize(config.capacity, besides, nbytes), config.placement, device, sharers)
    return Acting(experiment, agent, env_spec, seed, learner_slots, device, store_device, on_episodes, num_devices)


def _source(
    experiment: Experiment, agent: Agent, seed: int, acting: Acting, read: Callable[[tf.Tensor], Sequence[Unroll]]
) -> Source:
    """The source of batches from what acts on one device."""
    finished = Finished(acting.store, read, acting.pool, acting.queue, acting.cursor.slot_versions)
    config = experiment.replay
    if config is None:
        return FifoSource(finished, experiment.batch_size)
    assert isinstance(agent, ReplayAgent), "Experiment checks that only such agents get a replay"
    replay = PrioritizedReplay(
        config.capacity,
        acting.pool.num_slots,
        priority_exponent=config.priority_exponent,
        importance_exponent=config.importance_exponent,
        seed=seed,
    )
    return ReplaySource(finished, batch_size=experiment.batch_size, replay=replay, agent=agent, config=config)
