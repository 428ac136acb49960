"""Quantile regression, and priorities of sequences. Double Q-learning's values, errors, loss and gradients are in
`agents/r2d2_loss_test.py`."""

import numpy as np
import pytest
import tensorflow as tf

from seed_rl.rl import q_learning
from tests.support.gradients import gradient


def test_priorities_mix_the_largest_and_the_mean_error_of_the_steps_that_have_one():
    rng = np.random.default_rng(0)
    last = rng.random((6, 3)) < 0.3
    errors = np.where(last, 0, rng.standard_normal((6, 3)))
    assert 0 < last.sum() < last.size / 2
    largest, mean = np.abs(errors).max(axis=0), np.abs(errors).sum(axis=0) / (~last).sum(axis=0)
    np.testing.assert_allclose(q_learning.sequence_priorities(errors, last), 0.9 * largest + 0.1 * mean, 1e-5)
    mean = np.abs(errors).mean(axis=0)
    nowhere = np.zeros((6, 3), bool)
    priorities = q_learning.sequence_priorities(errors, nowhere, eta=0.2)
    np.testing.assert_allclose(priorities, 0.2 * largest + 0.8 * mean, 1e-5)
    nothing = q_learning.sequence_priorities(np.zeros((2, 1)), np.ones((2, 1), bool))
    np.testing.assert_array_equal(nothing, [0.0])
    assert not np.any(gradient(lambda x: tf.reduce_sum(q_learning.sequence_priorities(x, nowhere)), errors))


def quantile_loss(theta, targets):
    """The loss of one state and its gradient, one pair of a quantile and a target at a time."""
    loss, gradients = 0.0, np.zeros(len(theta))
    for i, estimate in enumerate(theta):
        tau = (2 * i + 1) / (2 * len(theta))
        for target in targets:
            u = target - estimate
            weight = 1 - tau if u < 0 else tau
            loss += weight * (u * u / 2 if abs(u) <= 1 else abs(u) - 0.5) / len(targets)
            gradients[i] -= weight * np.clip(u, -1, 1) / len(targets)
    return loss, gradients


@pytest.mark.parametrize("quantiles", [1, 4, 5])
def test_quantile_regression_is_that_of_the_formula(quantiles):
    rng = np.random.default_rng(quantiles)
    theta, target = 2 * rng.standard_normal((3, 2, quantiles)), 2 * rng.standard_normal((3, 2, quantiles))
    losses, slopes = np.zeros((3, 2)), np.zeros(theta.shape)
    for t, b in np.ndindex(3, 2):
        losses[t, b], slopes[t, b] = quantile_loss(theta[t, b], target[t, b])
    np.testing.assert_allclose(q_learning.quantile_huber_losses(theta, target), losses, rtol=1e-5)
    result = gradient(lambda x: tf.reduce_sum(q_learning.quantile_huber_losses(x, target)), theta)
    np.testing.assert_allclose(result, slopes, rtol=1e-4, atol=1e-6)
    assert not np.any(gradient(lambda x: tf.reduce_sum(q_learning.quantile_huber_losses(theta, x)), target))


def test_a_single_quantile_has_half_the_huber_loss_and_small_errors_a_quarter_of_their_square():
    theta, target = np.zeros((1, 3, 1)), np.array([[[0.5], [-0.5], [-3.0]]])
    np.testing.assert_allclose(q_learning.quantile_huber_losses(theta, target), [[0.0625, 0.0625, 1.25]])


def test_quantile_regression_finds_the_quantiles_of_a_distribution():
    """Far from its kink, so where errors exceed 1, the loss is that of quantiles: here of 0, 100, ..., 900."""
    theta, targets = tf.Variable(tf.zeros([1, 1, 10])), tf.range(10.0)[None, None] * 100
    for _ in range(2000):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(q_learning.quantile_huber_losses(theta, targets))
        theta.assign_sub(5.0 * tape.gradient(loss, theta))
    np.testing.assert_allclose(theta[0, 0], targets[0, 0], atol=6)
