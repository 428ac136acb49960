"""Builds a learner: agent and optimizers on their devices, the state of a checkpoint, inference, and a server."""

import logging
from collections.abc import Sequence

import numpy as np

from seed_rl.experiment import Experiment
from seed_rl.inference.order import FREE, Order
from seed_rl.inference.players import AGENT_ALONE
from seed_rl.learner.collector import build_collector
from seed_rl.learner.learner import Learner
from seed_rl.learner.peers import ALONE, Peers
from seed_rl.learner.progress import Progress
from seed_rl.learner.replicas import Replicas
from seed_rl.learner.saving import Saver
from seed_rl.learner.train_step import TrainStep
from seed_rl.reporting.sink import FurtherSink
from seed_rl.reporting.wandb_run import check_wandb
from seed_rl.system import devices
from seed_rl.transport.server import ActorServer
from seed_rl.weights.checkpoints import name_variables
from seed_rl.weights.warm_start import warm_start

_log = logging.getLogger(__name__)


def build_learner(
    experiment: Experiment,
    logdir: str,
    server: ActorServer,
    peers: Peers = ALONE,
    order: Order = FREE,
    sinks: Sequence[FurtherSink] = (),
) -> Learner:
    """Build the learner of an experiment with the state of the newest checkpoint in its log directory.

    The server, started or not, is that of its actors. The peers, connected, train the same model. The functions in
    `sinks` open further sinks for metrics on the first of them.

    Raises:
      CannotAct: the agent does not support these environments.
      CannotBuild: the environments can't be built here to read their spaces.
      CheckpointError: the newest checkpoint is not usable, or `Experiment.init_from` isn't.
      ConfigError: the requested devices don't exist or don't fit the batch, the replay needs more memory than is free,
        Weights & Biases can't be used here, or peers differ in their environments or devices.
    """
    check_wandb(experiment.logs)
    peers.compare({"the environments' spaces": repr(experiment.env_spec())})  # shapes depend on them
    replicas = Replicas(experiment, peers)
    peers.compare({"the training devices": list(replicas.split.training)})
    with replicas.scope():
        agent = experiment.build_agent()
        train_step = TrainStep(
            agent, experiment.optimizer, replicas.strategy, experiment.passes, experiment.minibatches, peers
        )
    variables = {**name_variables("agent", agent.variables), **train_step.variables}
    if experiment.agent.for_device() != experiment.agent:
        _log.info("computing in %s: %s", *devices.native_dtype())

    players = AGENT_ALONE
    if experiment.league is not None:
        players = experiment.league.build(experiment, logdir, len(replicas.inference_devices))
    progress = Progress(experiment.actors.num_training_envs, players)
    saver = Saver(logdir, experiment.logs, variables, progress, replicas.is_first)
    restored_from = saver.restore()
    if experiment.init_from and replicas.is_first:
        ignored = f"continuing {restored_from}: --init_from is only for new runs"
        _log.info("%s", ignored if restored_from else warm_start(agent, experiment))
    # Also a barrier: if a learner ends once all are here, no other waits for its weights.
    peers.share(variables, progress.counters)
    counters = progress.counters

    order.began(counters.learner_updates, counters.env_frames, variables)
    seed = _seed(experiment.seed, counters.learner_updates, peers.index)
    collector = build_collector(experiment, agent, seed, replicas, order, players)
    collector.refresh_weights(counters.learner_updates, counters.env_frames)
    progress.attach(collector.service)
    saver.attach(collector.source.snapshot, restored_from is not None, order)
    return Learner(
        experiment=experiment,
        logdir=logdir,
        replicas=replicas,
        agent=agent,
        train_step=train_step,
        variables=variables,
        progress=progress,
        saver=saver,
        collector=collector,
        server=server,
        peers=peers,
        order=order,
        sinks=sinks,
        restored_from=restored_from,
    )


def _seed(seed: int, updates: int, index: int) -> int:
    """Return a seed that differs between starts of a run and between peers: none repeats another's random numbers."""
    entropy = [seed, updates, *([index] if index else [])]
    return int(np.random.SeedSequence(entropy).generate_state(1)[0] >> 1)
