"""Values and gradients of the loss terms against closed forms."""

import numpy as np
import pytest
import tensorflow as tf

from seed_rl.rl import losses
from tests.support.gradients import gradient

T, B, A = 4, 3, 5


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def test_policy_gradient_loss(rng):
    log_probs, advantages = rng.standard_normal((2, T, B))
    np.testing.assert_allclose(
        losses.policy_gradient_loss(log_probs, advantages), -np.mean(log_probs * advantages), rtol=1e-5
    )
    np.testing.assert_allclose(
        gradient(lambda x: losses.policy_gradient_loss(x, advantages), log_probs), -advantages / (T * B), rtol=1e-5
    )
    assert not np.any(gradient(lambda x: losses.policy_gradient_loss(log_probs, x), advantages))


def test_clipped_ratio_loss(rng):
    log_ratios, advantages = np.log([[0.5, 0.9, 1.1, 2.0]] * 2), np.array([[1.0] * 4, [-1.0] * 4])
    expected = np.array([[0.5, 0.9, 1.1, 1.2], [-0.8, -0.9, -1.1, -2.0]])
    np.testing.assert_allclose(losses.clipped_ratio_loss(log_ratios, advantages, 0.2), -expected.mean(), rtol=1e-5)
    # No gain beyond the bound, none lost on the way back.
    slope = np.array([[0.5, 0.9, 1.1, 0.0], [0.0, -0.9, -1.1, -2.0]])
    actual = gradient(lambda x: losses.clipped_ratio_loss(x, advantages, 0.2), log_ratios)
    np.testing.assert_allclose(actual, -slope / 8, rtol=1e-5)
    assert not np.any(gradient(lambda x: losses.clipped_ratio_loss(log_ratios, x, 0.2), advantages))


def test_standardised(rng):
    x = 5 + 3 * rng.standard_normal((T, B))
    counted = rng.random((T, B)) < 0.5
    expected = np.where(counted, (x - x[counted].mean()) / x[counted].std(), 0)
    np.testing.assert_allclose(losses.standardised(x, counted), expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(losses.standardised(1e-9 * x, counted), expected, rtol=1e-4, atol=1e-5)
    assert np.abs(losses.standardised(tf.fill([T, B], 0.1), tf.ones([T, B]))).max() < 0.2, "equal, and not blown up"


def test_baseline_loss(rng):
    values, targets = rng.standard_normal((2, T, B))
    np.testing.assert_allclose(losses.baseline_loss(values, targets), 0.5 * np.mean((targets - values) ** 2), rtol=1e-5)
    np.testing.assert_allclose(
        gradient(lambda x: losses.baseline_loss(x, targets), values), (values - targets) / (T * B), rtol=1e-5
    )
    assert not np.any(gradient(lambda x: losses.baseline_loss(values, x), targets))


def test_a_value_moves_no_further_than_its_bound(rng):
    values, targets, old = rng.normal(size=(3, 4, 5)).astype(np.float32)
    clipped = np.clip(values, old - 0.3, old + 0.3)
    expected = 0.5 * np.mean(np.maximum((targets - values) ** 2, (targets - clipped) ** 2))
    assert float(losses.baseline_loss(values, targets, old, 0.3)) == pytest.approx(expected, rel=1e-5)
    assert float(losses.baseline_loss(values, targets, old)) < expected
    beyond, unbounded = tf.constant([[1.0]]), losses.baseline_loss([[1.0]], [[2.0]])
    with tf.GradientTape() as tape:
        tape.watch(beyond)
        loss = losses.baseline_loss(beyond, [[2.0]], [[0.0]], 0.5)
    assert (float(tape.gradient(loss, beyond)[0, 0]), float(loss)) == (0.0, 1.125)
    assert float(unbounded) == 0.5


def test_entropy_loss(rng):
    entropies = rng.standard_normal((T, B))
    np.testing.assert_allclose(losses.entropy_loss(entropies), -np.mean(entropies), rtol=1e-5)
    np.testing.assert_allclose(gradient(losses.entropy_loss, entropies), np.full((T, B), -1 / (T * B)), rtol=1e-5)


def test_kl_loss(rng):
    behaviour, target = rng.standard_normal((2, T, B))
    np.testing.assert_allclose(losses.kl_loss(behaviour, target), np.mean(behaviour - target), rtol=1e-5)
    np.testing.assert_allclose(gradient(lambda x: losses.kl_loss(behaviour, x), target), -1 / (T * B), rtol=1e-5)
    assert not np.any(gradient(lambda x: losses.kl_loss(x, target), behaviour))


def test_losses_are_float32_even_of_bfloat16():
    x = tf.ones([T, B], tf.bfloat16)
    for loss in (
        losses.policy_gradient_loss(x, x),
        losses.baseline_loss(x, x),
        losses.kl_loss(x, x),
        losses.entropy_loss(x),
    ):
        assert loss.dtype == tf.float32
        assert loss.shape == ()


@pytest.mark.parametrize(
    ("loss", "first", "second"),
    [
        (losses.policy_gradient_loss, "log_probs", "advantages"),
        (losses.baseline_loss, "values", "targets"),
        (losses.kl_loss, "behaviour_log_probs", "target_log_probs"),
    ],
)
def test_shapes_that_would_broadcast_are_refused_by_name(loss, first, second):
    with pytest.raises(ValueError, match=f"{first} must have rank 2"):
        loss(np.zeros([T, B, 1]), np.zeros([T, B]))
    for wrong in ([T, B, 1], [T, 1], [B]):
        with pytest.raises(ValueError, match=f"{second} must have shape"):
            loss(np.zeros([T, B]), np.zeros(wrong))
    for wrong in ([B], [T, B, A]):
        with pytest.raises(ValueError, match="entropies must have rank 2"):
            losses.entropy_loss(np.zeros(wrong))
