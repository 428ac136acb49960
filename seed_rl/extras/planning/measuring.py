"""Measures the rates that a plan needs on this machine, in about ten seconds."""

import contextlib
import dataclasses
import time
from collections.abc import Callable

import numpy as np
import tensorflow as tf

from seed_rl.agents.base import Agent
from seed_rl.envs.base import CannotBuild
from seed_rl.envs.vector.steps import random_play
from seed_rl.experiment import Actors, ConfigError, Experiment
from seed_rl.experiment.sizes import Sizes
from seed_rl.inference.act_step import Staging
from seed_rl.inference.acting import Acting
from seed_rl.learner.train_step import TrainStep
from seed_rl.types import Unroll

SECONDS = 2.0  # duration of a measurement
_STEPS, _MS = 512, 2000
"""Agent steps in the update that is measured, and milliseconds to act in them, at most; longer batches take longer."""
_MESSAGES = {1: (38.8, 21.8), 4: (42.2, 5.56), 16: (48.6, 1.80), 64: (86.7, 0.999)}
"""CPU time by environments per message: of the server's thread per message, and of an inference thread per step, in
microseconds, for Atari frames of 8 streams over the network to a core of an AMD EPYC (docs/benchmarks.md)."""


def env_steps(experiment: Experiment) -> tuple[float, str]:
    """Measure agent steps/s of a group of environments with random actions, and describe the source."""
    size = experiment.actors.envs_per_group
    try:
        env = experiment.env.make(size)
    except CannotBuild as error:
        raise ConfigError(f"the environments can't be measured here: {error}; give --env_steps") from error
    with contextlib.closing(env):
        outputs = random_play(env, experiment.env_spec())
        return size / _duration(lambda: next(outputs)), "measured here"


def act_ms(experiment: Experiment, agent: Agent, batch: int) -> tuple[float, str]:
    """Measure an act step of a number of environments, milliseconds, and describe the source."""
    acting = acting_of(experiment, agent, batch)
    env_ids, restarted = np.arange(batch, dtype=np.int32), np.zeros(batch, bool)
    output = Staging(experiment.env_spec(), batch).batch
    acting.cursor.restart(env_ids)
    writes, _ = acting.cursor.advance(env_ids)
    return 1e3 * _duration(lambda: acting.act_step(env_ids, restarted, writes, [output])), "measured here"


def acting_of(experiment: Experiment, agent: Agent, batch: int) -> Acting:
    """Build the acting of a single group of `batch` environments, whose store is as small as possible."""
    sized = dataclasses.replace(
        experiment,
        # All fields are given, because gin would fill in the experiment's.
        actors=Actors(num_actors=1, groups_per_actor=1, envs_per_group=batch, num_eval_envs=0),
        inference=dataclasses.replace(experiment.inference, max_batch_size=batch),
        replay=experiment.replay and dataclasses.replace(experiment.replay, capacity=1, min_size=1),
    )
    return Acting(agent, Sizes.of(sized, agent), sized.inference, experiment.seed)


def update_ms(experiment: Experiment, agent: Agent, step_ms: float) -> tuple[float, str]:
    """Measure an update of the experiment's batch, milliseconds, and describe the source; to act takes `step_ms`."""
    unrolls = max(1, min(experiment.batch_size, int(min(_STEPS, _MS / step_ms)) // agent.length))
    # A rate of zero, because repeated learning from one batch might diverge.
    train_step = TrainStep(agent, dataclasses.replace(experiment.optimizer, learning_rate=0.0))
    batch, weights = blank_unroll(agent, unrolls), np.ones(unrolls, np.float32)
    times = experiment.passes * experiment.batch_size / unrolls
    source = f"measured here with {unrolls} unrolls, times {times:.3g}"
    return 1e3 * times * _duration(lambda: train_step(batch, 0.0, weights)), source


def blank_unroll(agent: Agent, batch: int) -> Unroll:
    """Create unrolls [L, B, ...] of zeros."""
    steps: Unroll = tf.nest.map_structure(
        lambda spec: tf.zeros([agent.length, batch, *spec.shape], spec.dtype),
        agent.step_spec._replace(initial_state=()),
    )
    return steps._replace(initial_state=agent.initial_state(batch))


def message_us(size: int) -> tuple[float, float, str]:
    """Look up the CPU times of the server's thread per message and of an inference thread per step, microseconds.

    They are those of the largest messages no larger than a group's: larger messages cost less per observation.
    """
    known = max((each for each in _MESSAGES if each <= size), default=min(_MESSAGES))
    server_us, host_us = _MESSAGES[known]
    return server_us, host_us, f"as for {known} Atari environments per message on a core of an EPYC"


def _duration(call: Callable[[], object]) -> float:
    """Return the median duration of a call in seconds; the first calls, which compile, don't count."""
    call()
    call()
    times = [time.perf_counter()]
    while len(times) < 2 or times[-1] < times[0] + SECONDS:
        call()
        times.append(time.perf_counter())
    return float(np.median(np.diff(times)))
