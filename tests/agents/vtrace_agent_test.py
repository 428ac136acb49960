import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from seed_rl.agents.config import CannotAct
from seed_rl.agents.vtrace.config import VTrace
from seed_rl.specs import ArraySpec, DiscreteSpec, EnvSpec
from seed_rl.types import EnvOutput, Unroll

SPEC = EnvSpec(ArraySpec((36, 40, 1), "uint8"), DiscreteSpec(5))
SMALL = VTrace(torso="mlp", hidden=16, unroll_length=4)
VARIANTS = [
    SMALL,
    VTrace(torso="shallow", hidden=32, unroll_length=3, dtype="mixed_bfloat16"),
    VTrace(torso="shallow", hidden=32, unroll_length=3, lstm_units=8, previous_step_inputs=True),
    VTrace(torso="deep", hidden=16, unroll_length=2, lstm_units=8, previous_step_inputs=True, frame_stack=1),
    VTrace(torso="deep", hidden=16, unroll_length=1, frame_stack=2, dtype="mixed_bfloat16"),
    VTrace(
        torso="shallow",
        hidden=32,
        unroll_length=3,
        lstm_units=8,
        previous_step_inputs=True,
        dtype="mixed_bfloat16",
        kernel_initializer="he_normal",
    ),
]


def act_unroll(agent, batch, seed=0, length=None):
    """An unroll that the agent acted itself in random environments, and the logits it acted with."""
    rng = np.random.default_rng(seed)
    state = initial = agent.initial_state(batch)
    prev_action = tf.zeros([batch], tf.int32)
    steps = []
    for t in range(length or agent.length):
        output = EnvOutput(
            tf.constant(rng.normal(size=batch).astype(np.float32)),
            tf.constant(rng.random(batch) < 0.3),
            tf.constant(rng.integers(0, 256, (batch, *SPEC.observation.shape)).astype(np.uint8)),
        )
        answer = agent.act(prev_action, output, state, tf.range(batch), tf.constant([seed, t]))
        steps.append((prev_action, output, answer.action, answer.behaviour))
        prev_action, state = answer.action, answer.state
    fields = tf.nest.map_structure(lambda *values: tf.stack(values), *steps)
    return Unroll(initial, *fields)


@pytest.mark.parametrize("config", VARIANTS, ids=str)
def test_acts_and_learns(config):
    agent = config.build(SPEC, num_training_envs=2, seed=1)
    unroll = act_unroll(agent, batch=2)
    assert unroll.action.dtype == tf.int32
    assert unroll.action.shape == (config.unroll_length + 1, 2)
    assert unroll.behaviour.shape == (config.unroll_length + 1, 2, 5)
    with tf.GradientTape() as tape:
        output = agent.loss(unroll)
    gradients = tape.gradient(output.loss, [weight.value for weight in agent.trainable_variables])
    assert all(gradient is not None for gradient in gradients), "every weight takes part in the loss"
    assert all(np.isfinite(gradient).all() for gradient in gradients)
    assert {"loss/total", "loss/policy", "loss/baseline", "loss/entropy", "policy/entropy"} <= set(output.metrics)
    assert float(output.metrics["loss/total"]) == pytest.approx(
        sum(float(output.metrics[f"loss/{part}"]) for part in ("policy", "baseline", "entropy")), rel=1e-4
    )


@pytest.mark.parametrize("config", VARIANTS, ids=str)
def test_learner_and_actor_see_the_same_policy(config):
    """The unrolled network equals step-by-step acting, so on unchanged weights the policy has not moved."""
    agent = config.build(SPEC, num_training_envs=2, seed=1)
    unroll = act_unroll(agent, batch=3, length=agent.length)
    tolerance = 2e-2 if config.dtype == "mixed_bfloat16" else 1e-5
    assert float(agent.loss(unroll).metrics["policy/kl_behaviour_target"]) == pytest.approx(0, abs=tolerance)
    output, _ = agent._network(unroll.prev_action, unroll.env_output, unroll.initial_state)
    np.testing.assert_allclose(output.policy_logits, unroll.behaviour, atol=10 * tolerance)


def test_the_seed_draws_weights_and_actions():
    def logits(seed):
        return act_unroll(SMALL.build(SPEC, 2, seed), batch=2).behaviour.numpy()

    np.testing.assert_array_equal(logits(1), logits(1))
    assert not np.array_equal(logits(1), logits(2))


def test_rewards_are_clipped_if_asked():
    unroll = act_unroll(SMALL.build(SPEC, 2, 1), batch=2)
    large = unroll._replace(env_output=unroll.env_output._replace(reward=tf.fill([5, 2], 100.0)))
    ones = unroll._replace(env_output=unroll.env_output._replace(reward=tf.ones([5, 2])))

    def loss(config, batch):
        return float(config.build(SPEC, 2, 1).loss(batch).loss)

    clipped = dataclasses.replace(SMALL, max_abs_reward=1.0)
    assert loss(clipped, large) == loss(clipped, ones) == loss(SMALL, ones)
    assert loss(SMALL, large) != loss(SMALL, ones)


@pytest.mark.parametrize(("target", "direction"), [(0.1, -1), (1.7, 1)])
def test_the_entropy_cost_moves_towards_the_target_entropy(target, direction):
    config = dataclasses.replace(SMALL, target_entropy=target, entropy_cost=0.01)
    agent = config.build(SPEC, num_training_envs=2, seed=1)
    unroll = act_unroll(agent, batch=2)
    variable = agent.trainable_variables[-1]
    with tf.GradientTape() as tape:
        output = agent.loss(unroll)
    gradient = tape.gradient(output.loss, variable.value)
    assert float(output.metrics["policy/entropy_cost"]) == pytest.approx(0.01)
    assert np.sign(-float(gradient)) == direction, "descent lowers the cost above the target and raises it below"


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (EnvSpec(ArraySpec((4,), "float32"), DiscreteSpec(2)), r"uint8 images .* got observation float32\[4\]"),
        (EnvSpec({"a": ArraySpec((36, 36, 1), "uint8")}, DiscreteSpec(2)), r"uint8 images .* got a uint8\[36, 36, 1\]"),
        (
            EnvSpec(ArraySpec((20, 36, 1), "uint8"), DiscreteSpec(2)),
            "the shallow torso needs frames of at least 36 x 36, got observation uint8",
        ),
    ],
)
def test_environments_it_cannot_act_in_are_named(spec, message):
    with pytest.raises(CannotAct, match=message):
        VTrace(torso="shallow").build(spec, num_training_envs=2, seed=1)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"torso": "deeper"}, "VTrace.torso must be one of shallow, deep, mlp, got 'deeper'"),
        ({"discount": 1.5}, r"VTrace.discount must be in \[0, 1\], got 1.5"),
        ({"unroll_length": 0}, "VTrace.unroll_length must be at least 1, got 0"),
        ({"entropy_cost": -1.0}, "VTrace.entropy_cost must be at least 0, got -1.0"),
        ({"unroll_length": 2.5}, "VTrace.unroll_length must be int, got 2.5"),
        ({"previous_step_inputs": 1}, "VTrace.previous_step_inputs must be bool, got 1"),
        ({"target_entropy": 1.0, "entropy_cost": 0.0}, "needs a positive VTrace.entropy_cost"),
    ],
)
def test_impossible_settings_are_named(settings, message):
    with pytest.raises(ValueError, match=message):
        VTrace(**settings)
