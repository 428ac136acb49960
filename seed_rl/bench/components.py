"""The parts of the pipeline, each alone with the whole machine: agent steps per second."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from seed_rl.bench.load import random_output
from seed_rl.bench.timing import rate
from seed_rl.envs.base import EnvConfig, random_actions
from seed_rl.experiment import Experiment


def env_rate(config: EnvConfig, group_sizes: Sequence[int], seconds: float) -> float:
    """Environment groups stepped with random actions, a thread for each."""
    envs = [config.make(size) for size in group_sizes]
    rng = np.random.default_rng(0)
    actions = [random_actions(config.spec().action, rng, size) for size in group_sizes]
    for env in envs:
        env.reset(seed=0)

    def step_groups() -> int:
        steps = 20

        def run(index: int) -> None:
            for _ in range(steps):
                envs[index].step(actions[index])

        list(pool.map(run, range(len(envs))))
        return steps * sum(group_sizes)

    with ThreadPoolExecutor(len(envs)) as pool:
        result = rate(step_groups, seconds)
    for env in envs:
        env.close()
    return result


def act_and_train_rates(experiment: Experiment, seconds: float) -> dict[str, float]:
    """The compiled act step at its largest batch, and the learner's update with all that belongs to it.

    Both count steps that are learned from: `act` runs with the evaluation environments as padding, and `train` counts
    new agent steps, though with a replay an update trains on `ratio` times as many. Inserting into the
    replay is part of `act`; sampling, reading out of the store and writing priorities back are part of `train`.
    """
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    import tensorflow as tf

    from seed_rl.buffers.unroll_store import StepWrites
    from seed_rl.learner.assembly import assemble
    from seed_rl.learner.sources import ReplaySource
    from seed_rl.learner.train_step import TrainStep

    env_spec = experiment.env.spec()
    agent = experiment.build_agent()
    acting, source = assemble(experiment, agent, env_spec, experiment.seed)
    acting.act_step.warm_up()
    batch = min(acting.act_step.batch_sizes[-1], experiment.actors.num_training_envs)
    env_ids, restarted = np.arange(batch, dtype=np.int32), np.zeros(batch, bool)
    acting.cursor.restart(env_ids)
    output = random_output(env_spec, batch)

    replay = source if isinstance(source, ReplaySource) else None

    def act() -> int:
        plan = acting.cursor.advance(env_ids)
        acting.act_step(env_ids, restarted, StepWrites(plan.slots, plan.positions, plan.opened), [output])
        if replay is None:
            acting.pool.release(plan.finished)
        elif len(plan.finished):
            replay.insert(plan.finished)
        return batch

    train_step = TrainStep(agent, experiment.optimizer)
    any_slots = tf.zeros([experiment.batch_size], tf.int32)

    def train() -> int:
        if replay is None:
            train_step(acting.store.read(any_slots), 0.0)
        else:
            drawn = replay.draw()
            replay.write_back(train_step(drawn.unroll, 0.0, drawn.importance_weights).priorities)
        return round(experiment.unrolls_per_update * agent.unroll_length)

    while replay is not None and len(replay) < experiment.batch_size:
        act()
    return {"act": rate(act, seconds), "train": rate(train, seconds)}
