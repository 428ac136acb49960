"""The act step compiled as for an accelerator, against that of a CPU: an experiment of every family, on the CPU."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from benchmarks.streams import random_output
from seed_rl.experiment import Actors, config_files
from seed_rl.experiment.sizes import Sizes
from seed_rl.inference.acting import Acting
from seed_rl.system import devices

BATCH, STEPS = 4, 3
EXPERIMENTS = ("atari/vtrace_fast", "gym/acrobot", "memory/r2d2", "mujoco/sac_halfcheetah")
"""Every family of agents, with and without a recurrent core, with pictures and numbers, and in both precisions."""


def play(experiment, agent):
    """The actions of some steps, and all that the store then holds."""
    acting = Acting(agent, Sizes.of(experiment, agent), experiment.inference, experiment.seed)
    env_ids, env_spec = np.arange(BATCH, dtype=np.int32), experiment.env_spec()
    acting.cursor.restart(env_ids)
    actions = []
    for _ in range(STEPS):
        writes, _ = acting.cursor.advance(env_ids)
        actions.append(acting.act_step(env_ids, np.zeros(BATCH, bool), writes, [random_output(env_spec, BATCH)]))
    store = acting.unrolls.store
    return actions, tf.nest.flatten(store.read(tf.range(store.num_slots)))


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_the_same_actions_and_unrolls(name, monkeypatch):
    loaded = config_files.load([name])
    experiment = dataclasses.replace(
        loaded,
        actors=Actors(num_actors=1, groups_per_actor=1, envs_per_group=BATCH, num_eval_envs=0),
        replay=loaded.replay and dataclasses.replace(loaded.replay, capacity=1, min_size=1),
        batch_size=1,
        minibatches=1,
    )
    agent = experiment.build_agent()
    actions, unrolls = play(experiment, agent)
    monkeypatch.setattr(devices, "has_accelerator", lambda: True)
    compiled_actions, compiled_unrolls = play(experiment, agent)
    tolerance = 3e-2 if getattr(experiment.agent, "dtype", "") == "mixed_bfloat16" else 1e-4
    np.testing.assert_allclose(compiled_actions, actions, rtol=tolerance, atol=tolerance)
    for compiled, plain in zip(compiled_unrolls, unrolls, strict=True):
        np.testing.assert_allclose(compiled, plain, rtol=tolerance, atol=tolerance)
