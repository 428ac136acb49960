"""Truncation: targets, errors and gradients equal those of two trajectories, split where the episode was truncated."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from seed_rl.agents.actor_critic.networks import NetworkOutput
from seed_rl.agents.ppo.config import PPO
from seed_rl.agents.ppo.loss import ppo_loss, ppo_targets
from seed_rl.agents.r2d2.config import R2D2
from seed_rl.agents.r2d2.loss import priorities_of, r2d2_loss
from seed_rl.agents.transitions import transitions_of
from seed_rl.agents.vtrace.config import VTrace
from seed_rl.agents.vtrace.loss import vtrace_loss
from seed_rl.rl.distributions import Categorical
from seed_rl.rl.n_step import n_step_returns
from seed_rl.rl.vtrace import vtrace
from seed_rl.types import EnvOutput, Unroll

T = 6
POSITIONS = pytest.mark.parametrize("cut", range(T))


def random_steps(seed, steps=16, batch=8):
    """Actions of environments whose episodes end at random, terminated or in a last state; float32 [T, B]."""
    rng = np.random.default_rng(seed)
    data = {
        name: rng.standard_normal((steps, batch)).astype(np.float32) for name in ("log_rhos", "r_t", "values", "v_t")
    }
    data["last_t"], terminated = rng.random((2, steps, batch)) < 0.2
    data["discount_t"] = np.where(data["last_t"] | terminated, 0, 0.9).astype(np.float32)
    data["bootstrap_value"] = rng.standard_normal(batch).astype(np.float32)
    return data


def trajectories(last):
    """The rows, and the row behind them, of the trajectories that one gets by cutting [T] at last steps."""
    begin = 0
    for end in [*np.flatnonzero(last), len(last)]:
        if end > begin:
            yield slice(begin, end), end
        begin = end + 1


@pytest.mark.parametrize("log_rhos", [0.0, 1.0], ids=["lambda-returns", "off-policy"])
def test_v_trace_is_that_of_separate_trajectories(log_rhos):
    steps = random_steps(seed=1)
    steps["log_rhos"] *= log_rhos
    names, last = ("log_rhos", "discount_t", "r_t", "values"), steps["last_t"]
    returns = vtrace(*(steps[name] for name in names), steps["bootstrap_value"], last_t=last, lambda_=0.8)
    np.testing.assert_allclose(returns.vs.numpy()[last], steps["values"][last], rtol=0, atol=1e-6)
    assert not np.any(returns.pg_advantages.numpy()[last])
    values = np.concatenate([steps["values"], steps["bootstrap_value"][None]])
    for b in range(last.shape[1]):
        own = slice(b, b + 1)
        for rows, end in trajectories(last[:, b]):
            expected = vtrace(*(steps[name][rows, own] for name in names), values[end, own], lambda_=0.8)
            for whole, part in zip(returns, expected, strict=True):
                np.testing.assert_allclose(whole[rows, own], part, rtol=0, atol=2e-6)


@pytest.mark.parametrize("n", [1, 2, 3, 9])
def test_n_step_returns_are_those_of_separate_trajectories(n):
    steps, names = random_steps(seed=2), ("r_t", "discount_t", "v_t")
    returns = n_step_returns(*(steps[name] for name in names), n, steps["last_t"])
    for b in range(returns.shape[1]):
        own = slice(b, b + 1)
        for rows, _ in trajectories(steps["last_t"][:, b]):
            expected = n_step_returns(*(steps[name][rows, own] for name in names), n)
            np.testing.assert_allclose(returns[rows, own], expected, rtol=0, atol=1e-6)


def random_sequence(cut):
    """Q-values of two networks, actions and outputs of one sequence; step `cut` is the last of an episode."""
    rng = np.random.default_rng(cut)
    done = np.zeros((T + 1, 1), bool)
    done[cut + 1] = True
    last = np.roll(done, -1, axis=0)
    env_output = EnvOutput(tf.constant(rng.standard_normal((T + 1, 1)), tf.float32), done, last, ())
    q = [tf.constant(rng.standard_normal((T + 1, 1, 3)), tf.float32) for _ in range(2)]
    return q, rng.integers(0, 3, (T + 1, 1)).astype(np.int32), env_output


def unroll_of(action, env_output, behaviour_policy):
    return Unroll((), (), env_output, action, NetworkOutput(behaviour_policy, ()))


@pytest.mark.parametrize("n", [1, 3])
@POSITIONS
def test_the_loss_of_r2d2_its_gradient_and_priority_are_those_of_two_sequences(cut, n):
    config = R2D2(n_steps=n)
    (online_q, target_q), action, env_output = random_sequence(cut)

    def loss_of(rows):
        """Loss, errors and gradient of a part of the sequence."""
        steps = EnvOutput(*(x[rows] for x in env_output[:3]), ())
        with tf.GradientTape() as tape:
            tape.watch(online_q)
            result = r2d2_loss(
                online_q=online_q[rows],
                target_q=target_q[rows],
                action=action[rows],
                env_output=steps,
                importance_weights=tf.ones([1]),
                config=config,
            )
        return result.total, result.td_errors, tape.gradient(result.total, online_q)

    total, errors, gradient = loss_of(slice(0, T + 1))
    parts = [loss_of(rows) for rows in (slice(0, cut + 1), slice(cut + 1, T + 1)) if rows.stop - rows.start > 1]
    np.testing.assert_allclose(total, sum(part[0] for part in parts), rtol=1e-5)
    np.testing.assert_allclose(gradient, sum(part[2] for part in parts), rtol=0, atol=1e-6)
    magnitudes = np.abs(np.concatenate([part[1] for part in parts])) if parts else np.zeros((1, 1))
    expected = config.max_priority_weight * magnitudes.max() + (1 - config.max_priority_weight) * magnitudes.mean()
    np.testing.assert_allclose(priorities_of(errors, env_output, config), [expected], rtol=1e-5)


@POSITIONS
def test_the_loss_of_v_trace_and_its_gradient_are_those_of_two_unrolls(cut):
    """But for the entropy and the KL divergence, which need no outcome, and are left out here."""
    (target_policy, behaviour_policy), action, env_output = random_sequence(cut)
    baseline = tf.constant(np.random.default_rng(cut).standard_normal((T + 1, 1)), tf.float32)

    def sum_of(rows):
        """The loss of a part of the unroll, summed over its steps instead of their mean, and its gradients."""
        with tf.GradientTape() as tape:
            tape.watch([target_policy, baseline])
            steps = unroll_of(action[rows], EnvOutput(*(x[rows] for x in env_output[:3]), ()), behaviour_policy[rows])
            output = NetworkOutput(target_policy[rows], baseline[rows])
            mean = vtrace_loss(Categorical(3), output, steps, 0.0, 1.0, VTrace(entropy_cost=0.0)).total
            total = (rows.stop - rows.start - 1) * mean
        return [total, *tape.gradient(total, [target_policy, baseline])]

    whole = sum_of(slice(0, T + 1))
    parts = [sum_of(rows) for rows in (slice(0, cut + 1), slice(cut + 1, T + 1)) if rows.stop - rows.start > 1]
    for actual, expected in zip(whole, zip(*parts, strict=True), strict=True):
        np.testing.assert_allclose(actual, sum(expected), rtol=0, atol=2e-6)


@POSITIONS
def test_the_last_step_of_an_episode_moves_neither_policy_nor_value_of_ppo(cut):
    (target_policy, behaviour_policy), action, env_output = random_sequence(cut)
    rng = np.random.default_rng(cut)
    baseline = tf.constant(rng.standard_normal((T + 1, 1)), tf.float32)
    before = NetworkOutput(behaviour_policy, tf.constant(rng.standard_normal((T + 1, 1)), tf.float32))
    config, unroll = PPO(clip_value=0.1), unroll_of(action, env_output, behaviour_policy)
    unroll = unroll._replace(targets=ppo_targets(Categorical(3), before, unroll, config))
    with tf.GradientTape() as tape:
        tape.watch([target_policy, baseline])
        total = ppo_loss(Categorical(3), NetworkOutput(target_policy, baseline), unroll, 0.0, 1.0, config).total
    for gradient in tape.gradient(total, [target_policy, baseline]):
        assert np.any(gradient)
        np.testing.assert_array_equal(gradient[cut], np.zeros_like(gradient[cut]))


@pytest.mark.parametrize("config", [VTrace(), R2D2()], ids=["vtrace", "r2d2"])
def test_a_setting_treats_truncation_as_termination(config):
    _, _, env_output = random_sequence(cut=2)
    as_end = dataclasses.replace(config, truncation_is_termination=True)
    for setting, ends in ((config, [2]), (as_end, [1, 2])):  # action 1 leads to the last step of the episode
        transitions = transitions_of(env_output, setting)
        np.testing.assert_array_equal(np.flatnonzero(transitions.last_t), [2])
        np.testing.assert_array_equal(np.flatnonzero(transitions.discount_t == 0), ends)
