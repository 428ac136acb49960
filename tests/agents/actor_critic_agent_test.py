"""V-trace and PPO: acting and learning in every kind of environment, and the adjusted entropy cost."""

import dataclasses
import math

import numpy as np
import pytest
import tensorflow as tf

from seed_rl.agents.ppo import PPO
from seed_rl.agents.vtrace import VTrace
from seed_rl.experiment.optimizer import Optimizer
from seed_rl.learner.train_step import TrainStep
from seed_rl.rl import masks
from seed_rl.rl.exploration import Holding
from seed_rl.rl.vtrace import lambda_returns
from seed_rl.specs import LEGAL_ACTIONS, ArraySpec, DiscreteSpec, EnvSpec, bounds_of
from tests.support.experience import (
    CHOICES,
    FORCES,
    NUMBERS,
    acted_unroll,
    assert_matches_step_spec,
    move,
    random_output,
    with_targets,
)

SPEC = EnvSpec(NUMBERS, DiscreteSpec(5))
SMALL = VTrace(torso="mlp", hidden=16, unroll_length=4)
RECURRENT = dataclasses.replace(SMALL, core="lstm", core_units=8, previous_step_inputs=True)
VARIANTS = [
    (dataclasses.replace(SMALL, mlp_layers=2, clip_ratio=0.2), EnvSpec(NUMBERS, FORCES)),
    (PPO(hidden=16, unroll_length=4), EnvSpec(NUMBERS, FORCES)),
    (dataclasses.replace(RECURRENT, value_norm=True), EnvSpec(NUMBERS, CHOICES)),
]
"""Configs with the environments that they act in."""


@pytest.mark.parametrize(("config", "spec"), VARIANTS, ids=["clipped ratio", "ppo", "recurrent"])
def test_acts_and_learns_from_the_same_policy(config, spec):
    """The unrolled network equals step-by-step acting, so on unchanged weights the policy has not moved."""
    agent = config.build(spec, num_training_envs=2, seed=1)
    move(agent, seed=1, scale=0.2)
    unroll = acted_unroll(agent, batch=3)
    assert_matches_step_spec(agent, unroll)
    low, high = bounds_of(spec.action)
    assert np.all((unroll.action >= low) & (unroll.action <= high))

    with tf.GradientTape() as tape:
        output = agent.loss(with_targets(agent, unroll), tf.ones([3]))
    assert output.losses.keys() == agent.groups.keys() == {"model"}
    assert float(output.losses["model"]) == float(output.metrics["loss/total"])
    for gradient in tape.gradient(output.losses["model"], [own.value for own in agent.model.trainable_variables]):
        assert np.isfinite(gradient).all(), "every weight takes part in the loss"

    assert float(output.metrics["policy/kl_behaviour_target"]) == pytest.approx(0, abs=1e-5)
    outputs, _ = agent.model(unroll.prev_action, unroll.env_output, unroll.initial_state)
    for learned, acted in zip(outputs[:2], unroll.behaviour, strict=True):
        np.testing.assert_allclose(learned, acted, atol=1e-4)
    of_state = slice(3) if config.continuous_policy == "clipped" else slice(None)  # deviations don't depend on it
    spread = np.ptp(unroll.behaviour.policy.numpy(), axis=(0, 1))[of_state].min()
    assert spread > 2e-4, "observations make a difference"


def test_the_entropy_cost_is_a_lagrange_multiplier_with_a_separate_learning_rate():
    """Five equal actions have an entropy of 1.6; Adam's first step is one learning rate long."""
    target = 1.7
    config = dataclasses.replace(SMALL, target_entropy=target, entropy_cost=0.01, entropy_cost_adjustment_speed=20.0)
    agent = config.build(SPEC, num_training_envs=2, seed=1)
    unroll = acted_unroll(agent, batch=8)
    acted = 1.0 - np.mean(unroll.env_output.last[:-1])
    assert acted < 1
    assert list(agent.groups) == ["model", "entropy_cost"]
    (log_cost,) = agent.groups["entropy_cost"].variables
    assert any(variable is log_cost for variable in agent.variables), "checkpoints hold it"

    metrics = agent.loss(unroll, tf.ones([8])).metrics
    assert float(metrics["policy/entropy_cost"]) == pytest.approx(0.01)
    assert float(metrics["loss/entropy"]) == pytest.approx(-0.01 * float(metrics["policy/entropy"]), rel=1e-5)

    train_step = TrainStep(agent, Optimizer(learning_rate=0.001))
    metrics = train_step(unroll, 0.0, np.ones(8)).metrics
    assert metrics["entropy_cost/learning_rate"] == pytest.approx(0.02)
    assert metrics["learning_rate"] == pytest.approx(0.001)
    assert float(log_cost.value) == pytest.approx(math.log(0.01) + 0.02, rel=1e-4)
    log_cost.assign(20.5)
    train_step(unroll, 0.0, np.ones(8))
    assert float(log_cost.value) == 20.0, "kept from overflow"
    excess = metrics["policy/entropy"] - target * acted  # no action is taken where an episode is cut off
    assert metrics["entropy_cost/gradient_norm"] == pytest.approx(0.01 * abs(excess), rel=1e-3)


def test_actions_are_drawn_by_the_seed_of_the_step_and_greedy_ones_are_not_drawn():
    agent = RECURRENT.build(EnvSpec(NUMBERS, FORCES), num_training_envs=2, seed=1)
    move(agent, seed=1)
    output = random_output(np.random.default_rng(0), agent.env_spec, (3,))

    def act(seed, greedy=False):
        arguments = tf.zeros([3, 3]), output, agent.initial_state(3), tf.range(3), tf.constant([7, seed])
        return agent.act(*arguments, greedy=greedy).action.numpy()

    drawn, greedy = act(0), act(0, greedy=True)
    np.testing.assert_array_equal(drawn, act(0))
    assert np.all(np.any(drawn != act(1), axis=-1))
    np.testing.assert_array_equal(greedy, act(1, greedy=True))
    assert np.all(np.any(greedy != drawn, axis=-1))
    mixed = act(0, greedy=tf.constant([False, True, False]))
    np.testing.assert_allclose(mixed, [drawn[0], greedy[1], drawn[2]], atol=1e-6)


def test_a_held_action_is_no_decision_of_the_policy():
    """Three of four environments are for training, and in all but the first a reward comes with each step."""
    config = dataclasses.replace(RECURRENT, unroll_length=19, advantage_norm=True, explore_after=2)
    agent = config.build(EnvSpec(NUMBERS, CHOICES), num_training_envs=3, seed=1)
    move(agent, seed=1, scale=0.2)

    def rewarded(output):
        return output._replace(reward=output.reward * tf.constant([0.0, 1.0, 1.0, 0.0]))

    def act(prev_action, output, *rest):
        return agent.act(prev_action, rewarded(output), *rest)

    unroll = acted_unroll(agent, batch=4, seed=3, act=act)
    unroll = unroll._replace(env_output=rewarded(unroll.env_output))
    assert_matches_step_spec(agent, unroll)
    held = np.sum(masks.is_legal(unroll.behaviour.policy), axis=-1) == 2  # a single value of both choices
    assert 2 < held[:, 0].sum() < agent.length
    assert not held[:, 1:].any()
    np.testing.assert_array_equal(unroll.action[:, 0][held[:, 0]], unroll.prev_action[:, 0][held[:, 0]])

    _, made = agent.review(unroll)
    np.testing.assert_allclose(made.log_pi, made.log_mu, atol=1e-5)
    np.testing.assert_array_equal(made.acted == 0, held[:-1] | unroll.env_output.last[:-1])
    move(agent, seed=2, scale=0.2)
    _, made = agent.review(unroll)
    np.testing.assert_array_equal(made.log_pi[held[:-1]], 0)
    assert np.abs(made.log_pi - made.log_mu)[~held[:-1]].min() > 1e-5
    assert np.all(np.asarray(made.max_entropies)[held[:-1]] == 0)
    assert all(np.isfinite(metric) for metric in agent.loss(unroll, tf.ones([4])).metrics.values())


def test_actions_are_held_only_where_they_are_legal_and_neither_in_evaluation_nor_if_continuous():
    spec = EnvSpec({"observation": NUMBERS, LEGAL_ACTIONS: ArraySpec((1,), "uint8")}, DiscreteSpec(2))
    config = dataclasses.replace(SMALL, explore_after=1)
    agent, output = config.build(spec, 64, seed=1), random_output(np.random.default_rng(0), spec, (64,))
    output = output._replace(reward=tf.zeros([64]), done=tf.range(64) >= 48, last=tf.zeros([64], bool))
    output.observation[LEGAL_ACTIONS] = tf.constant([[1]] * 32 + [[3]] * 32, tf.uint8)
    state = (Holding(*tf.fill([2, 64], 1000)), agent.initial_state(64)[1])
    second = tf.ones([64], tf.int32)
    action = agent.act(second, output, state, tf.range(64), tf.constant([3, 4])).action.numpy()
    assert not action[:32].any()
    assert action[32:48].mean() > 0.9
    assert action[48:].mean() < 0.9, "an episode has just begun"

    evaluated = config.build(spec, 0, seed=1)
    tf.nest.assert_same_structure(evaluated.initial_state(64), agent.initial_state(64)[1])
    action = evaluated.act(second, output, evaluated.initial_state(64), tf.range(64), tf.constant([3, 4])).action
    assert np.mean(action[32:]) < 0.9
    continuous = config.build(EnvSpec(NUMBERS, FORCES), 64, seed=1)
    tf.nest.assert_same_structure(continuous.initial_state(64), agent.initial_state(64)[1])


def test_the_value_starts_at_zero_and_the_policy_nearly_uniform():
    agent = dataclasses.replace(SMALL, hidden=256).build(SPEC, 2, seed=1)
    deviations = {v.path.split("/")[-2]: float(np.std(v.value)) for v in agent.model.variables if v.name == "kernel"}
    assert deviations["baseline"] == 0
    assert 0 < deviations["policy"] < 0.01 * math.sqrt(2 / 256)


def test_the_unit_of_values_is_the_deviation_of_lambda_returns_of_the_acting_values():
    agent = dataclasses.replace(SMALL, value_norm=True, discount=0.9, lambda_=0.8).build(SPEC, 4, seed=1)
    move(agent, seed=1)
    unroll = acted_unroll(agent, batch=8)
    reward, done, last = unroll.env_output[:3]
    values, discount = unroll.behaviour.baseline, tf.where(done, 0.0, 0.9)
    assert np.any(last[:-1])
    targets = lambda_returns(discount[1:], reward[1:], values[:-1], values[-1], last_t=last[:-1], lambda_=0.8)
    for _ in range(2):
        agent.update_statistics(agent.moments(unroll), 8 * agent.unroll_length)
    unit = agent.loss(unroll, tf.ones([8])).metrics["policy/value_unit"]
    acted = ~last[:-1]  # nothing is learned where an episode is cut off
    assert float(unit) == pytest.approx(np.std(targets[acted]), rel=1e-5)


def test_the_gradients_of_repeated_words_are_added_up():
    spec = EnvSpec(ArraySpec((2,), "uint16"), DiscreteSpec(5))
    agent = dataclasses.replace(SMALL, unroll_length=1).build(spec, num_training_envs=2, seed=1)
    move(agent, seed=1, scale=0.2)
    unroll = acted_unroll(agent, batch=3)
    words = tf.fill([2, 3, 2], tf.constant(7, tf.uint16))
    unroll = unroll._replace(env_output=unroll.env_output._replace(observation=words))
    with tf.GradientTape() as tape:
        loss = agent.loss(unroll, tf.ones([3])).losses["model"]
    gradients = tape.gradient(loss, [weight.value for weight in agent.model.trainable_variables])
    expected = tf.linalg.global_norm([tf.convert_to_tensor(gradient) for gradient in gradients])
    metrics = TrainStep(agent, Optimizer(learning_rate=0.001))(unroll, 0.0, np.ones(3)).metrics
    assert metrics["gradient_norm"] == pytest.approx(float(expected), rel=1e-4)
