"""Collects experience: central inference with an unroll store on each inference device, and a source of batches."""

import logging
from collections.abc import Callable
from typing import NamedTuple

from seed_rl.agents.base import Agent
from seed_rl.experiment import Experiment
from seed_rl.experiment.sizes import Sizes
from seed_rl.inference.acting import Acting
from seed_rl.inference.order import FREE, Order
from seed_rl.inference.players import AGENT_ALONE, Players
from seed_rl.inference.service import CentralInference
from seed_rl.learner.actor_server import actor_settings
from seed_rl.learner.placement import place_store
from seed_rl.learner.replicas import Replicas
from seed_rl.learner.sources import JoinedSource, Source, new_source

_log = logging.getLogger(__name__)


class Collector(NamedTuple):
    """The parts of a learner process that fill the stores and that read them."""

    service: CentralInference
    acting: tuple[Acting, ...]
    """One per inference device."""
    source: Source
    refresh_weights: Callable[[int, int], None]
    """Copy the weights to the inference devices; takes the learner updates and the environment frames behind them."""


def build_collector(
    experiment: Experiment,
    agent: Agent,
    seed: int,
    replicas: Replicas,
    order: Order = FREE,
    players: Players = AGENT_ALONE,
) -> Collector:
    """Build central inference and the batch source it feeds, with a seed that is different for each start of a run.

    Raises:
      ConfigError: a store needs more memory than is free.
    """
    devices = replicas.inference_devices
    agents, copy_weights = replicas.acting_agents(agent, experiment.build_agent, order.whole_weights)
    sizes = Sizes.of(experiment, agent, len(devices), replicas.peers.count)
    replay = experiment.replay
    acting, sources = [], []
    for number, (own_agent, device) in enumerate(zip(agents, devices, strict=True)):
        own_seed = (seed + number) % 2**31
        sharers = len(devices) - number  # of the host's memory: stores before this one have theirs
        place = place_store(sizes, replay.placement if replay else "device", device, sharers)
        store_device = place if replay else device  # without a replay, only checked to fit
        one = Acting(own_agent, sizes, experiment.inference, own_seed, (device, store_device), order, number, players)
        acting.append(one)
        store = one.unrolls.store
        read = replicas.reader(store, number)
        sources.append(new_source(one.unrolls, read, sizes, own_agent, replay, own_seed))
    actors = experiment.actors
    if actors.num_eval_envs:
        training, evaluation = actors.num_training_envs, actors.num_eval_envs
        _log.info("environments: %d for training (ids 0..%d), %d for evaluation", training, training - 1, evaluation)
    membership = order.membership(actors.num_envs, seed, experiment.inference.lease_timeout_s, len(acting))
    threads = [one.thread for one in acting]
    settings = actor_settings(experiment)
    service = CentralInference(settings, agent.env_spec, membership, threads, order, experiment.env.players)

    def refresh_weights(learner_updates: int, env_frames: int) -> None:
        for one in acting:
            one.cursor.newest_version = learner_updates
        with order.refreshing():
            copy_weights()
            for one in acting:
                one.cursor.version = learner_updates
            players.refresh(learner_updates, env_frames, agent, seed)

    source = sources[0] if len(sources) == 1 else JoinedSource(sources)
    return Collector(service, tuple(acting), source, refresh_weights)
