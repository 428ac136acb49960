"""How a learner is put together: its parts in the order in which they are built, and a function that builds each.

A neighbour changes a run by replacing functions, as in `run.changes.append(lambda assembly:
assembly._replace(act_step=...))`. No part knows that another was replaced, and each is given only what it uses.
"""

import contextlib
import functools
import logging
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from seed_rl.agents.base import Agent
from seed_rl.buffers.slots import UnrollQueue
from seed_rl.buffers.unroll_store import UnrollStore
from seed_rl.experiment import Experiment
from seed_rl.experiment.sizes import Sizes
from seed_rl.inference.act_step import ActStep
from seed_rl.inference.acting import Acting
from seed_rl.inference.batcher import Batcher
from seed_rl.inference.membership import Membership
from seed_rl.inference.service import CentralInference
from seed_rl.learner.learner import Learner
from seed_rl.learner.placement import place_store
from seed_rl.learner.progress import Progress
from seed_rl.learner.replicas import Replicas
from seed_rl.learner.saving import Saver
from seed_rl.learner.sources import JoinedSource, Source, new_source
from seed_rl.learner.train_step import TrainStep
from seed_rl.reporting.metrics import Sink
from seed_rl.reporting.sinks import sinks_of
from seed_rl.reporting.wandb_run import check_wandb
from seed_rl.system import devices
from seed_rl.weights.checkpoints import name_variables
from seed_rl.weights.warm_start import warm_start

_log = logging.getLogger(__name__)


class Parts:
    """The parts of a learner in the order in which they are built; a function of an `Assembly` uses those before."""

    replicas: Replicas
    """Training and inference devices."""
    agent: Agent
    train_step: TrainStep
    variables: dict[str, Any]
    """Keras variables of agent and optimizers by their names in checkpoints."""
    own: np.ndarray
    """bool [N]: which environments the agent plays; the steps of others are neither stored nor reported."""
    progress: Progress
    saver: Saver
    seed: int
    """Differs between starts of a run, and between learners: none repeats another's random numbers."""
    sizes: Sizes
    agents: Sequence[Agent]
    """Acting agents, one per inference device."""
    copy_weights: Callable[[], None]
    """Gives them the weights of the agent."""
    acting: list[Acting]
    """One per inference device."""
    source: Source
    service: CentralInference

    def __init__(
        self, experiment: Experiment, directory: str, cleanup: contextlib.ExitStack, index: int = 0, learners: int = 1
    ):
        """The `directory` is the run's on this machine, `cleanup` is closed at the end of the run.

        This learner has the number `index` among the `learners` that train together.
        """
        self.experiment, self.directory, self.cleanup = experiment, directory, cleanup
        self.index, self.learners = index, learners

    def seed_of(self, number: int) -> int:
        """Return the seed of an inference device."""
        return (self.seed + number) % 2**31


def _restore(parts: Parts) -> None:
    if path := parts.saver.restore():
        _log.info("continuing from %s at %d frames", path, parts.progress.counters.env_frames)
    if parts.experiment.init_from:
        ignored = f"continuing {path}: --init_from is only for new runs"
        _log.info("%s", ignored if path else warm_start(parts.agent, parts.experiment))


def _train_step(parts: Parts) -> TrainStep:
    experiment, strategy = parts.experiment, parts.replicas.strategy
    return TrainStep(parts.agent, experiment.optimizer, strategy, experiment.passes, experiment.minibatches)


def _act_step(parts: Parts, number: int, store: UnrollStore) -> ActStep:
    device = parts.replicas.inference_devices[number]
    return ActStep(parts.agents[number], store, parts.sizes, parts.seed_of(number), device)


def _membership(parts: Parts) -> Membership:
    timeout = parts.experiment.inference.lease_timeout_s
    return Membership(parts.sizes.num_envs, parts.seed, timeout, num_devices=parts.sizes.num_devices)


def _joined_source(parts: Parts) -> Source:
    sources = []
    for number, one in enumerate(parts.acting):
        read, replay = parts.replicas.reader(one.unrolls.store, number), parts.experiment.replay
        sources.append(new_source(one.unrolls, read, parts.sizes, parts.agents[number], replay, parts.seed_of(number)))
    return sources[0] if len(sources) == 1 else JoinedSource(sources)


class Assembly(NamedTuple):
    """A function for each part that a neighbour may replace; without arguments, the learner of a plain run."""

    replicas: Callable[[Parts], Replicas] = lambda parts: Replicas(parts.experiment, parts.learners)
    train_step: Callable[[Parts], TrainStep] = _train_step
    own: Callable[[Parts], np.ndarray] = lambda parts: np.ones(parts.experiment.actors.num_envs, bool)
    progress: Callable[[Parts], Progress] = lambda parts: Progress(parts.experiment.actors.num_training_envs, parts.own)
    saver: Callable[[Parts], Saver] = lambda parts: Saver(
        parts.directory, parts.experiment.logs, parts.variables, parts.progress
    )
    restore: Callable[[Parts], None] = _restore
    acting_agents: Callable[[Parts], tuple[Sequence[Agent], Callable[[], None]]] = lambda parts: (
        parts.replicas.acting_agents(parts.agent, parts.experiment.build_agent)
    )
    act_step: Callable[[Parts, int, UnrollStore], ActStep] = _act_step
    """Called with the number of the inference device, as is `batcher`."""
    batcher: Callable[[Parts, int, UnrollQueue], Batcher] = lambda parts, number, queue: Batcher(
        parts.sizes.max_batch, parts.experiment.inference.max_wait_ms / 1000
    )
    membership: Callable[[Parts], Membership] = _membership
    source: Callable[[Parts], Source] = _joined_source
    sinks: Callable[[Parts, tuple[int, float] | None], list[Sink]] = lambda parts, resumed: sinks_of(
        parts.experiment, parts.directory, resumed
    )
    """Called with `env_frames` and `seconds` of a run that continues."""
    finish: Callable[[Parts], None] = lambda parts: None
    """Takes a last look at all parts, before acting gets its first weights."""

    def parts(self, experiment: Experiment, directory: str, cleanup: contextlib.ExitStack, **learner: int) -> Parts:
        """Build the parts of a learner with the state of the newest checkpoint in the run's directory.

        Raises CheckpointError, ConfigError if devices are missing or too small, CannotAct and CannotBuild.
        """
        parts = Parts(experiment, directory, cleanup, **learner)
        if parts.index == 0:
            check_wandb(experiment.logs)
        parts.replicas = self.replicas(parts)
        with parts.replicas.scope():
            parts.agent = experiment.build_agent()
            parts.train_step = self.train_step(parts)
        parts.variables = {**name_variables("agent", parts.agent.variables), **parts.train_step.variables}
        parts.own = self.own(parts)
        parts.progress = self.progress(parts)
        parts.saver = self.saver(parts)
        self.restore(parts)
        counters, replay = parts.progress.counters, experiment.replay
        # A replay that is saved keeps what a start has played even if it made no update.
        kept = counters.agent_steps if replay is not None and replay.snapshot else 0
        entropy = [experiment.seed, counters.learner_updates, *([parts.index, kept] if parts.index or kept else [])]
        parts.seed = int(np.random.SeedSequence(entropy).generate_state(1)[0] >> 1)

        inference_devices = parts.replicas.inference_devices
        parts.sizes = Sizes.of(experiment, parts.agent, len(inference_devices), parts.learners)
        parts.agents, copy = self.acting_agents(parts)
        parts.acting = []
        for number in range(len(inference_devices)):
            parts.acting.append(self.acting(parts, number))

        def copy_weights() -> None:
            copy()
            for one in parts.acting:
                one.cursor.version = parts.progress.counters.learner_updates

        parts.copy_weights = copy_weights
        parts.source = self.source(parts)
        threads, players = [one.thread for one in parts.acting], experiment.env.players
        size = experiment.actors.envs_per_group if experiment.eval_env != experiment.env else None
        seconds = experiment.actors.hang_timeout_s
        parts.service = CentralInference(parts.agent.env_spec, self.membership(parts), threads, players, size, seconds)
        parts.progress.service = parts.service
        parts.saver.attach(parts.source.snapshot)
        self.finish(parts)
        return parts

    def acting(self, parts: Parts, number: int) -> Acting:
        """Build an inference device with its store; those before it have theirs."""
        sizes, replay, device = parts.sizes, parts.experiment.replay, parts.replicas.inference_devices[number]
        sharers = sizes.num_devices - number  # of the host's memory
        place = place_store(sizes, replay.placement if replay else "device", device, sharers)
        return Acting(
            parts.agents[number],
            sizes,
            parts.experiment.inference,
            parts.seed_of(number),
            # A store without a replay is only checked to fit. CPUs share one memory, and TensorFlow thinks they don't.
            (device, place if replay and devices.has_accelerator() else device),
            recorded=parts.own & (np.arange(sizes.num_envs) < sizes.num_training_envs),
            act_step=functools.partial(self.act_step, parts, number),
            batcher=functools.partial(self.batcher, parts, number),
        )

    def learner(self, parts: Parts) -> Learner:
        """Build the training loop around the parts, and give acting its first weights."""
        learner = Learner(
            *(parts.experiment, parts.replicas, parts.agent, parts.train_step, parts.progress, parts.saver),
            *(parts.acting, parts.service, parts.source, parts.copy_weights),
            functools.partial(self.sinks, parts),
            parts.learners,
        )
        learner.refresh_weights()
        return learner
