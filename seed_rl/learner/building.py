"""Builds a learner: agent and optimizers on their devices, the state of a checkpoint, inference, and a server."""

import dataclasses
import logging
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from seed_rl.experiment import Experiment
from seed_rl.inference.order import FREE, Order
from seed_rl.inference.players import AGENT_ALONE
from seed_rl.learner.assembly import assemble
from seed_rl.learner.collectives import NO_OTHERS, Link
from seed_rl.learner.learner import Learner
from seed_rl.learner.progress import Counters, Progress
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
    link: Link = NO_OTHERS,
    order: Order = FREE,
    sinks: Sequence[FurtherSink] = (),
) -> Learner:
    """Build the learner of an experiment with the state of the newest checkpoint in its log directory.

    The server, started or not, is that of its actors. The link connects hosts that train the same model. The functions
    in `sinks` open further sinks for metrics on the first host.

    Raises:
      CannotAct: the agent does not support these environments.
      CannotBuild: the environments can't be built here to read their spaces.
      CheckpointError: the newest checkpoint is not usable, or `Experiment.init_from` isn't.
      ConfigError: the requested devices don't exist or don't fit the batch, the replay needs more memory than is free,
        Weights & Biases can't be used here, or hosts differ in their environments or devices.
      HostLost: another host is gone.
    """
    check_wandb(experiment.logs)
    link.compare({"the environments' spaces": repr(experiment.env_spec())})  # shapes depend on them
    replicas = Replicas(experiment, link.hosts)
    link.compare({"the training devices": list(replicas.split.training)})
    with replicas.scope():
        agent = experiment.build_agent()
        train_step = TrainStep(
            agent, experiment.optimizer, replicas.strategy, experiment.passes, experiment.minibatches, link
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
    _share(variables, link)
    # Also a barrier: if a host ends once all are here, no other host waits for its weights.
    counters = progress.counters = Counters(**link.gather(dataclasses.asdict(progress.counters))[0])

    order.began(counters.learner_updates, counters.env_frames, variables)
    seed = _seed(experiment.seed, counters.learner_updates, link.hosts.index)
    assembly = assemble(experiment, agent, seed, replicas, order, players)
    assembly.refresh(counters.learner_updates, counters.env_frames)
    progress.attach(assembly.service)
    saver.attach(assembly.source.snapshot, restored_from is not None, order)
    return Learner(
        experiment=experiment,
        logdir=logdir,
        replicas=replicas,
        agent=agent,
        train_step=train_step,
        variables=variables,
        progress=progress,
        saver=saver,
        assembly=assembly,
        server=server,
        link=link,
        order=order,
        sinks=sinks,
        restored_from=restored_from,
    )


def _share(variables: Mapping[str, Any], link: Link) -> None:
    """Copy weights and optimizer state from host 0, which has the checkpoint, to all hosts."""
    if link.hosts.count > 1:
        own = {name: variable.numpy() for name, variable in variables.items()}
        # They differ where the code of a network or an agent does.
        link.compare({f"the shape of {name}": f"{a.dtype} {list(a.shape)}" for name, a in own.items()})
        for variable, array in zip(variables.values(), link.of_first(list(own.values())), strict=True):
            variable.assign(array)


def _seed(seed: int, updates: int, host: int) -> int:
    """Return a seed that differs between starts of a run and between hosts: none repeats another's random numbers."""
    entropy = [seed, updates, *([host] if host else [])]
    return int(np.random.SeedSequence(entropy).generate_state(1)[0] >> 1)
