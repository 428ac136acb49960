"""A task with a time limit and a known value: a reward of 1 at every step is worth 1 / (1 - discount), limit or not."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from seed_rl.agents.r2d2.config import R2D2
from seed_rl.agents.vtrace.config import VTrace
from seed_rl.experiment.optimizer import Optimizer
from seed_rl.learner.train_step import TrainStep
from seed_rl.specs import ArraySpec, DiscreteSpec, EnvSpec
from seed_rl.types import EnvOutput, Unroll

LIMIT, BATCH = 7, 4
SPEC = EnvSpec(ArraySpec((LIMIT,), "float32"), DiscreteSpec(1))
VALUE = 1 / (1 - 0.9)
VTRACE = VTrace(torso="mlp", hidden=8, unroll_length=20, discount=0.9, entropy_cost=0.0)
DQN = R2D2(
    torso="mlp",
    hidden=8,
    head_hidden=8,
    core="none",
    previous_step_inputs=False,
    unroll_length=20,
    burn_in=2,
    n_steps=5,
    discount=0.9,
    value_rescaling=False,
    target_update_period=4,
)


def unroll_of(agent):
    """Environments whose episodes are cut off after `LIMIT` steps, at another step in each; they observe a clock."""
    steps = (np.arange(agent.length)[:, None] + np.arange(BATCH)) % (LIMIT + 1)
    begins, last = steps == 0, steps == LIMIT
    env_output = EnvOutput((~begins).astype(np.float32), begins, last, np.eye(LIMIT, dtype=np.float32)[steps % LIMIT])
    action = np.zeros_like(steps, np.int32)
    behaviour = tf.nest.map_structure(
        lambda spec: np.zeros((*steps.shape, *spec.shape), spec.dtype.as_numpy_dtype), agent.behaviour_spec
    )
    unroll = Unroll(agent.initial_state(BATCH), action, env_output, action, behaviour)
    return tf.nest.map_structure(tf.convert_to_tensor, unroll)


def learned_values(config, updates):
    """The values of all steps, after training on the same unrolls."""
    agent = config.build(SPEC, BATCH, seed=1)
    train_step, unroll = TrainStep(agent, Optimizer(learning_rate=0.04)), unroll_of(agent)
    for update in range(1, updates + 1):
        train_step(unroll, 0.0, np.ones(BATCH, np.float32))
        agent.after_update(update)
    output, _ = agent.model(unroll.prev_action, unroll.env_output, unroll.initial_state)
    return np.ravel(output.baseline if isinstance(config, VTrace) else output)


@pytest.mark.parametrize("config", [VTRACE, DQN], ids=["vtrace", "r2d2"])
def test_the_value_reaches_beyond_the_time_limit_unless_that_counts_as_termination(config):
    np.testing.assert_allclose(learned_values(config, 150), VALUE, rtol=0.02)
    # As terminal states they are worth no more than the rewards before the limit: 0.9^0 + ... at most.
    cut = learned_values(dataclasses.replace(config, truncation_is_termination=True), 150)
    assert [cut.min(), cut.max()] == pytest.approx([1.0, (1 - 0.9**LIMIT) * VALUE], abs=0.3)
