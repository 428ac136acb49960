"""The loss of the R2D2 agent against its formulas written out in numpy, value and gradient."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from seed_rl.agents.r2d2 import R2D2
from seed_rl.agents.r2d2.agent import r2d2_loss
from seed_rl.rl.n_step import n_step_returns
from seed_rl.rl.value_rescaling import IDENTITY, SIGNED_HYPERBOLIC
from seed_rl.types import EnvOutput

NUM_ACTIONS = 4
SETTINGS = R2D2(discount=0.9, n_steps=3)


def random_sequences(length, batch):
    """T + 1 steps of B sequences, by the names of the loss's arguments; of the episodes, some end in a last state."""
    rng = np.random.default_rng([length, batch])
    done = rng.random((length + 1, batch)) < 0.3
    return {
        "online_q": 2 * rng.standard_normal((length + 1, batch, NUM_ACTIONS)),
        "target_q": 2 * rng.standard_normal((length + 1, batch, NUM_ACTIONS)),
        "action": rng.integers(0, NUM_ACTIONS, (length + 1, batch)),
        "reward": 3 * rng.standard_normal((length + 1, batch)),
        "done": done,
        "last": np.roll(done, -1, axis=0) & (rng.random(done.shape) < 0.5),
        "importance_weights": rng.uniform(0.2, 1.0, batch),
    }


def loss_of(data, config):
    """`r2d2_loss` of numpy arrays or tensors by name."""
    floats = {name: tf.cast(data[name], tf.float32) for name in ("online_q", "target_q", "importance_weights")}
    env_output = EnvOutput(tf.cast(data["reward"], tf.float32), data["done"], data["last"], ())
    return r2d2_loss(action=data["action"], env_output=env_output, config=config, **floats)


def targets_of(data, config):
    """The targets of steps 0 .. T - 1, [T, B, N], each from its own quantile of the values of the target network.

    Given n-step returns and the rescaling of values, which `tests/rl` covers. Action a_t leads to the reward of step
    t + 1, and to the end of the episode if step t + 1 is done.
    """
    apply, inverse = SIGNED_HYPERBOLIC if config.value_rescaling else IDENTITY
    bound = config.max_abs_reward or np.inf
    rewards, discounts = np.clip(data["reward"], -bound, bound), config.discount * ~data["done"]
    policy, entropy, bonus = np.eye(NUM_ACTIONS)[data["online_q"].mean(axis=2).argmax(axis=-1)], 0.0, 0.0
    if config.munchausen:  # equation 1 of arXiv:2007.14430
        policy = np.exp(data["target_q"].mean(axis=2) / config.temperature)
        policy /= policy.sum(axis=-1, keepdims=True)
        entropy = -config.temperature * np.sum(policy * np.log(policy), axis=-1)
        taken = np.take_along_axis(policy, data["action"][..., None], axis=-1)[:-1, :, 0]
        bonus = config.munchausen * np.maximum(config.temperature * np.log(taken), -1)
    targets = []
    for quantile in np.moveaxis(data["target_q"], 2, 0):
        v_t = inverse(np.sum(policy * quantile, axis=-1) + entropy)[1:]
        returns = n_step_returns(rewards[1:], discounts[1:], v_t, config.n_steps, data["last"][:-1])
        targets.append(apply(returns) + bonus)
    return np.stack(targets, axis=-1)


def taken_of(q, data):
    """The values of the actions taken in steps 0 .. T - 1, [T, B, N]."""
    return np.take_along_axis(q, data["action"][..., None, None], axis=-1)[:-1, ..., 0]


@pytest.mark.parametrize(
    ("length", "batch", "changed"),
    [
        (1, 3, {"n_steps": 1}),
        (5, 30, {}),
        (5, 30, {"n_steps": 9, "max_abs_reward": 1.0, "max_priority_weight": 0.2}),
        (5, 30, {"n_steps": 2, "value_rescaling": False, "discount": 0.5}),
        (5, 30, {"value_rescaling": False, "munchausen": 0.9, "temperature": 0.7}),
    ],
)
def test_loss_and_gradient_are_those_of_the_formulas(length, batch, changed):
    data, config = random_sequences(length, batch), dataclasses.replace(SETTINGS, **changed)
    names = ("online_q", "target_q", "reward", "importance_weights")
    tensors = {name: tf.constant(data[name], tf.float32) for name in names}
    with tf.GradientTape() as tape:
        tape.watch(tensors)
        result = loss_of(data | tensors, config)
    weights, acted = data["importance_weights"], ~data["last"][:-1]
    data |= {name: data[name][:, :, None] for name in ("online_q", "target_q")}
    q = taken_of(data["online_q"], data)[..., 0]
    errors = acted * (targets_of(data, config)[..., 0] - q)
    total = np.mean(weights * 0.5 * np.sum(errors**2, axis=0))
    values = (SIGNED_HYPERBOLIC if config.value_rescaling else IDENTITY).inverse(q).numpy()
    assert {x.dtype for x in tf.nest.flatten(result)} == {tf.float32}
    np.testing.assert_allclose(result.losses["model"], total, rtol=1e-4)
    means = {"loss/total": total, "q/abs_td_error": np.abs(errors).mean(), "q/value": values.mean()}
    assert {name: float(value) for name, value in result.metrics.items()} == pytest.approx(means, rel=1e-4, abs=1e-6)
    np.testing.assert_allclose(result.maxima["q/max_value"], values.max(), rtol=1e-4)
    largest, mean = np.abs(errors).max(axis=0), np.abs(errors).sum(axis=0) / np.maximum(acted.sum(axis=0), 1)
    priorities = config.max_priority_weight * largest + (1 - config.max_priority_weight) * mean
    np.testing.assert_allclose(result.priorities, priorities, rtol=1e-4, atol=2e-5)

    gradients = tape.gradient(result.losses["model"], tensors)
    assert [name for name in names if gradients[name] is not None] == ["online_q"]
    slopes = -weights * errors / batch
    expected = np.eye(NUM_ACTIONS)[data["action"]] * np.concatenate([slopes, np.zeros((1, batch))])[..., None]
    np.testing.assert_array_equal(gradients["online_q"].numpy() == 0, expected == 0)
    np.testing.assert_allclose(gradients["online_q"], expected, rtol=1e-4, atol=1e-5)


def quantile_losses(data, config):
    """Losses [T, B] before weighting, and their gradients by the quantiles of the actions taken [T, B, N]."""
    taus = ((np.arange(config.quantiles) + 0.5) / config.quantiles)[:, None]
    errors = targets_of(data, config)[:, :, None] - taken_of(data["online_q"], data)[..., None]
    weights = ~data["last"][:-1, :, None, None] * np.where(errors >= 0, taus, 1 - taus) / config.quantiles
    losses = weights * np.where(np.abs(errors) <= 1, 0.5 * errors**2, np.abs(errors) - 0.5)
    return losses.sum(axis=(2, 3)), -np.sum(weights * np.clip(errors, -1, 1), axis=3)


@pytest.mark.parametrize(
    ("length", "changed"),
    [
        (1, {"quantiles": 1}),
        (6, {"quantiles": 5}),
        (4, {"quantiles": 3, "value_rescaling": False, "n_steps": 2}),
        (4, {"quantiles": 3, "value_rescaling": False, "munchausen": 0.9, "temperature": 0.7}),
    ],
)
def test_the_quantile_loss_and_its_gradient_are_those_of_the_formulas(length, changed):
    config, batch = dataclasses.replace(SETTINGS, **changed), 7
    data, rng = random_sequences(length, batch), np.random.default_rng(length)
    for name in ("online_q", "target_q"):
        data[name] = 2 * rng.standard_normal((length + 1, batch, config.quantiles, NUM_ACTIONS))
    tensors = {name: tf.constant(data[name], tf.float32) for name in ("online_q", "target_q")}
    with tf.GradientTape() as tape:
        tape.watch(tensors)
        result = loss_of(data | tensors, config)
    losses, slopes = quantile_losses(data, config)
    weights = data["importance_weights"]
    np.testing.assert_allclose(result.losses["model"], np.mean(weights * losses.sum(axis=0)), rtol=1e-4)
    gradients = tape.gradient(result.losses["model"], tensors)
    assert gradients["target_q"] is None
    expected = np.zeros(data["online_q"].shape)
    actions = np.eye(NUM_ACTIONS)[data["action"][:-1]][:, :, None]
    expected[:-1] = (slopes * weights[:, None] / batch)[..., None] * actions
    np.testing.assert_allclose(gradients["online_q"], expected, rtol=1e-4, atol=1e-6)

    means = data | {name: data[name].mean(axis=2) for name in tensors}
    of_means = loss_of(means, dataclasses.replace(config, quantiles=0))
    for name in ("q/abs_td_error", "q/value"):
        np.testing.assert_allclose(result.metrics[name], of_means.metrics[name], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(result.priorities, of_means.priorities, rtol=1e-4, atol=1e-5)
