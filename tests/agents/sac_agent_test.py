"""The SAC agent: its losses written out in numpy, values and gradients, the replay's steps, and learning."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from seed_rl.agents.sac import SAC
from seed_rl.agents.sac.agent import sac_loss
from seed_rl.experiment.optimizer import Optimizer
from seed_rl.learner.train_step import TrainStep
from seed_rl.rl.n_step import n_step_returns
from seed_rl.specs import ContinuousSpec, EnvSpec
from seed_rl.types import EnvOutput
from tests.support.experience import FORCES, NUMBERS, acted_unroll, assert_matches_step_spec

SPEC = EnvSpec(NUMBERS, FORCES)
SMALL = SAC(hidden=16, unroll_length=4, n_steps=3, discount=0.9)


def random_sequences(batch, config):
    """The arguments of the loss by name, and the steps that environments report."""
    rng, steps, length = np.random.default_rng(0), config.unroll_length, config.unroll_length + config.n_steps
    data = {
        "values": rng.normal(size=(2, steps, batch)),
        "fresh_values": rng.normal(size=(2, steps, batch)),
        "target_values": rng.normal(size=(2, length - 1, batch)),
        "log_prob": rng.normal(size=(length, batch)),
        "temperature": np.float64(0.7),
        "importance_weights": rng.uniform(0.2, 1, batch),
    }
    done = rng.random((length, batch)) < 0.25
    last = np.roll(done, -1, axis=0) & (rng.random((length, batch)) < 0.5)
    last[-1] = False
    return data, (rng.normal(size=(length, batch)), done, last)


def loss_of(data, steps, config):
    reward, done, last = steps
    tensors = {name: tf.cast(value, tf.float32) for name, value in data.items()}
    output = EnvOutput(tf.constant(reward, tf.float32), tf.constant(done), tf.constant(last), ())
    return sac_loss(**tensors, target_entropy=-2.0, env_output=output, config=config)


def errors_of(data, steps, config):
    """The targets less the values [2, T, B], given n-step returns, which `n_step_test` covers."""
    # Action a_t leads to the reward and the end of step t + 1, except from a last state.
    reward, done, last = steps[0][1:], steps[1][1:], steps[2][:-1]
    discount, entropy_bonus = config.discount * ~done, -data["temperature"] * data["log_prob"][1:]
    rewards, values = reward + discount * entropy_bonus, data["target_values"].min(axis=0)
    targets = n_step_returns(rewards, discount, values, config.n_steps, last)[: config.unroll_length]
    return np.where(last[: config.unroll_length], 0, targets - data["values"])


@pytest.mark.parametrize("config", [SMALL, dataclasses.replace(SMALL, unroll_length=1, n_steps=1)], ids=["4", "1"])
def test_losses_and_gradients_are_those_of_the_formulas(config):
    data, steps = random_sequences(40, config)
    alpha, log_prob = data["temperature"], data["log_prob"][: config.unroll_length]
    errors = errors_of(data, steps, config)
    assert 0 < np.sum(errors == 0) < errors.size / 2, "some transitions are truncated"
    count = log_prob.size
    acted = ~steps[2][: config.unroll_length]
    smaller = data["fresh_values"].min(axis=0)
    expected = {
        "critics": 0.5 * np.mean(data["importance_weights"] * np.sum(errors**2, axis=0)),
        "actor": np.mean(acted * (alpha * log_prob - smaller)),
        "temperature": alpha * (-log_prob[acted].mean() + 2.0),
    }
    padded = np.pad(acted * alpha / count, [(0, config.n_steps), (0, 0)])
    slopes = {
        "critics": {"values": -data["importance_weights"] * errors / count},
        "actor": {"fresh_values": acted * (data["fresh_values"] == smaller) / -count, "log_prob": padded},
        "temperature": {"temperature": -log_prob[acted].mean() + 2.0},
    }
    tensors = {name: tf.constant(x, tf.float32) for name, x in data.items() if name != "importance_weights"}
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(tensors)
        result = loss_of(data | tensors, steps, config)
    for name, value in expected.items():
        np.testing.assert_allclose(result.losses[name], value, rtol=1e-5, atol=1e-6, err_msg=name)
        gradients = tape.gradient(result.losses[name], tensors)
        assert {key for key, gradient in gradients.items() if gradient is not None} == slopes[name].keys()
        for key, slope in slopes[name].items():
            np.testing.assert_allclose(gradients[key], slope, rtol=1e-5, atol=1e-6, err_msg=f"{name} by {key}")
    np.testing.assert_allclose(result.metrics["q/abs_td_error"], np.abs(errors).mean(), rtol=1e-5)
    np.testing.assert_allclose(result.metrics["q/value"], data["values"].mean(), rtol=1e-5)
    magnitudes = np.abs(errors).mean(axis=0)
    priorities = 0.9 * magnitudes.max(axis=0) + 0.1 * magnitudes.sum(axis=0) / np.maximum(acted.sum(axis=0), 1)
    np.testing.assert_allclose(result.priorities, priorities, rtol=1e-5, atol=1e-6)


def test_a_batch_of_last_steps_moves_no_temperature():
    data, (reward, done, last) = random_sequences(3, SMALL)
    losses = loss_of(data, (reward, done, np.ones_like(last)), SMALL).losses
    assert [float(losses[name]) for name in ("critics", "actor", "temperature")] == [0.0, 0.0, 0.0]


def test_each_group_has_its_own_loss_and_the_targets_follow():
    config = dataclasses.replace(SMALL, layer_norm="all", previous_step_inputs=True, mlp_layers=1, unroll_length=2)
    agent = dataclasses.replace(config, target_update_rate=0.5).build(SPEC, 4, seed=1)
    unroll = acted_unroll(agent, batch=4)
    assert_matches_step_spec(agent, unroll)
    with tf.GradientTape(persistent=True) as tape:
        output = agent.loss(unroll, tf.ones([4]), tf.constant([3, 4]))
    assert output.metrics.keys() == {"loss/total"} | {metric.name for metric in SAC.metrics}
    assert output.priorities.shape == (4,)
    assert output.losses.keys() == agent.groups.keys()
    for name, group in agent.groups.items():
        for gradient in tape.gradient(output.losses[name], [variable.value for variable in group.variables]):
            assert np.any(gradient), name

    online, frozen = agent._critics.variables, agent._target.model.variables
    before = [variable.numpy() for variable in frozen]
    for variable in online:
        variable.assign_add(tf.ones_like(variable))
    agent.after_update(1)
    for variable, old, new in zip(frozen, before, online, strict=True):
        np.testing.assert_allclose(variable, (old + new.numpy()) / 2, atol=1e-6)


def test_it_finds_the_rewarded_action():
    """The reward is highest where the first of three numbers is 0.5; the second and third don't matter."""
    agent = SAC(hidden=32, discount=0.0, initial_temperature=5.0).build(SPEC, 16, seed=1)
    act, train_step = tf.function(agent.act, autograph=False), TrainStep(agent, Optimizer(learning_rate=0.02))
    for seed in range(90):
        unroll = acted_unroll(agent, batch=16, seed=seed, warm_up=0, act=act)
        reward = -20 * tf.square(unroll.action[:-1, :, 0] - 0.5)
        env_output = unroll.env_output._replace(reward=tf.concat([tf.zeros([1, 16]), reward], axis=0))
        train_step(unroll._replace(env_output=env_output), 0.0, np.ones(16), seed)
        agent.after_update(seed + 1)
    outputs = agent.model(*unroll[1:3], unroll.initial_state)[0][0]
    greedy, _ = agent.decide(outputs, tf.range(16), tf.constant([0, 1]), True)
    np.testing.assert_allclose(np.median(greedy[:, 0]), 0.5, atol=0.25)
    mixed, _ = agent.decide(outputs, tf.range(8, 24), tf.constant([0, 1]), False)
    np.testing.assert_array_equal(mixed[8:], greedy[8:], err_msg="evaluation environments do not explore")
    assert np.all(np.any(mixed[:8] != greedy[:8], axis=-1))


def test_the_target_entropy_is_that_of_the_action_in_its_own_units():
    one = SAC(hidden=4).build(EnvSpec(NUMBERS, ContinuousSpec((-1.0,), (1.0,))), 1, 1)
    wide = SAC(hidden=4).build(EnvSpec(NUMBERS, ContinuousSpec((0.0,), (4.0,))), 1, 1)
    assert wide._target_entropy - one._target_entropy == pytest.approx(np.log(2.0))
