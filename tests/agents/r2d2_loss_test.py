"""The loss of the R2D2 agent against its formulas written out in numpy, value and gradient."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from seed_rl.agents.r2d2 import R2D2
from seed_rl.agents.r2d2.agent import r2d2_loss
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


def rescale(x):
    return np.sign(x) * (np.sqrt(abs(x) + 1) - 1) + 1e-3 * x


def unscale(x):
    root = np.sqrt(1 + 4e-3 * (abs(x) + 1 + 1e-3))
    return np.sign(x) * (((root - 1) / 2e-3) ** 2 - 1)


def munchausen(data, t, k, b, config):
    """The bonus of step t, and policy and entropy of step k, as equation 1 of arXiv:2007.14430 has them."""
    means = data["target_q"].mean(axis=2) if data["target_q"].ndim == 4 else data["target_q"]
    policies = np.exp(means / config.temperature)
    policies /= policies.sum(axis=-1, keepdims=True)
    bonus = config.munchausen * max(config.temperature * np.log(policies[t, b, data["action"][t, b]]), -1)
    entropy = -config.temperature * np.sum(policies[k, b] * np.log(policies[k, b]))
    return bonus, policies[k, b], entropy


def reference(data, config):
    """The loss, the TD errors and the values of the actions taken: one step and one reward at a time, float64."""
    apply, inverse = (rescale, unscale) if config.value_rescaling else (lambda x: x, lambda x: x)
    reward, done, last = data["reward"], data["done"], data["last"]
    if config.max_abs_reward:
        reward = np.clip(reward, -config.max_abs_reward, config.max_abs_reward)
    length, batch = reward[1:].shape
    errors, values = np.zeros((length, batch)), np.zeros((length, batch))
    for t, b in np.ndindex(length, batch):
        q, target, discount, k = data["online_q"][t, b, data["action"][t, b]], 0.0, 1.0, t
        values[t, b] = inverse(q)
        if last[t, b]:
            continue  # the action leads nowhere
        while k < min(t + config.n_steps, length) and not last[k, b]:
            # Action a_k leads to the reward of step k + 1, and to the end of the episode if step k + 1 is done.
            k += 1
            target += discount * reward[k, b]
            discount *= 0.0 if done[k, b] else config.discount
        bootstrap = data["target_q"][k, b, np.argmax(data["online_q"][k, b])]
        if config.munchausen:
            bonus, policy, entropy = munchausen(data, t, k, b, config)
            target, bootstrap = target + bonus, np.dot(policy, data["target_q"][k, b]) + entropy
        errors[t, b] = apply(target + discount * inverse(bootstrap)) - q
    losses = data["importance_weights"] * 0.5 * np.sum(errors**2, axis=0)
    return np.mean(losses), errors, values


@pytest.mark.parametrize(
    ("length", "batch", "changed"),
    [
        (1, 3, {"n_steps": 1}),
        (5, 30, {}),
        (5, 30, {"n_steps": 9, "max_abs_reward": 1.0}),
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
    total, errors, values = reference(data, config)
    assert {x.dtype for x in tf.nest.flatten(result)} == {tf.float32}
    np.testing.assert_allclose(result.losses["model"], total, rtol=1e-4)
    means = {"loss/total": total, "q/abs_td_error": np.abs(errors).mean(), "q/value": values.mean()}
    assert {name: float(value) for name, value in result.metrics.items()} == pytest.approx(means, rel=1e-4, abs=1e-6)
    np.testing.assert_allclose(result.maxima["q/max_value"], values.max(), rtol=1e-4)
    steps = np.maximum((~data["last"][:-1]).sum(axis=0), 1)
    priorities = 0.9 * np.abs(errors).max(axis=0) + 0.1 * np.abs(errors).sum(axis=0) / steps
    np.testing.assert_allclose(result.priorities, priorities, rtol=1e-4, atol=2e-5)

    gradients = tape.gradient(result.losses["model"], tensors)
    assert [name for name in names if gradients[name] is not None] == ["online_q"]
    slopes = -data["importance_weights"] * errors / batch
    expected = np.eye(NUM_ACTIONS)[data["action"]] * np.concatenate([slopes, np.zeros((1, batch))])[..., None]
    np.testing.assert_array_equal(gradients["online_q"].numpy() == 0, expected == 0)
    np.testing.assert_allclose(gradients["online_q"], expected, rtol=1e-4, atol=1e-5)


def quantile_reference(data, config):
    """Losses [T, B] before weighting, and their gradients: one quantile and one target at a time."""
    apply, inverse = (rescale, unscale) if config.value_rescaling else (lambda x: x, lambda x: x)
    length, batch, count = len(data["reward"]) - 1, data["reward"].shape[1], config.quantiles
    losses, slopes = np.zeros((length, batch)), np.zeros(data["online_q"].shape)
    for t, b in np.ndindex(length, batch):
        if data["last"][t, b]:
            continue
        rewards, discount, k = 0.0, 1.0, t
        while k < min(t + config.n_steps, length) and not data["last"][k, b]:
            k += 1
            rewards += discount * data["reward"][k, b]
            discount *= 0.0 if data["done"][k, b] else config.discount
        best = np.argmax([np.mean(data["online_q"][k, b, :, a]) for a in range(NUM_ACTIONS)])
        targets = [apply(rewards + discount * inverse(data["target_q"][k, b, j, best])) for j in range(count)]
        if config.munchausen:
            bonus, policy, entropy = munchausen(data, t, k, b, config)
            soft = [np.dot(policy, data["target_q"][k, b, j]) + entropy for j in range(count)]
            targets = [rewards + bonus + discount * value for value in soft]
        for i in range(count):
            tau = (i + 0.5) / count
            for target in targets:
                error = target - data["online_q"][t, b, i, data["action"][t, b]]
                weight = (tau if error >= 0 else 1 - tau) / count
                losses[t, b] += weight * (0.5 * error**2 if abs(error) <= 1 else abs(error) - 0.5)
                slopes[t, b, i, data["action"][t, b]] -= weight * np.clip(error, -1, 1)
    return losses, slopes


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
    losses, slopes = quantile_reference(data, config)
    weights = data["importance_weights"]
    np.testing.assert_allclose(result.losses["model"], np.mean(weights * losses.sum(axis=0)), rtol=1e-4)
    gradients = tape.gradient(result.losses["model"], tensors)
    assert gradients["target_q"] is None
    expected = slopes * weights[:, None, None] / batch
    np.testing.assert_allclose(gradients["online_q"], expected, rtol=1e-4, atol=1e-6)

    means = data | {name: data[name].mean(axis=2) for name in tensors}
    of_means = loss_of(means, dataclasses.replace(config, quantiles=0))
    for name in ("q/abs_td_error", "q/value"):
        np.testing.assert_allclose(result.metrics[name], of_means.metrics[name], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(result.priorities, of_means.priorities, rtol=1e-4, atol=1e-5)
