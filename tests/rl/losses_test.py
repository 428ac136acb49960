"""Values and gradients of the loss terms against closed forms."""

import numpy as np
import tensorflow as tf

from seed_rl.rl import losses
from tests.support.gradients import gradient

T, B = 4, 3


def test_clipped_ratio_loss_and_what_does_not_move():
    log_ratios, advantages = np.log([[0.5, 0.9, 1.1, 2.0]] * 2), np.array([[1.0] * 4, [-1.0] * 4])
    expected = np.array([[0.5, 0.9, 1.1, 1.2], [-0.8, -0.9, -1.1, -2.0]])
    np.testing.assert_allclose(losses.clipped_ratio_loss(log_ratios, advantages, 0.2), -expected.mean(), rtol=1e-5)
    # No gain beyond the bound, none lost on the way back.
    slope = np.array([[0.5, 0.9, 1.1, 0.0], [0.0, -0.9, -1.1, -2.0]])
    actual = gradient(lambda x: losses.clipped_ratio_loss(x, advantages, 0.2), log_ratios)
    np.testing.assert_allclose(actual, -slope / 8, rtol=1e-5)
    assert not np.any(gradient(lambda x: losses.clipped_ratio_loss(log_ratios, x, 0.2), advantages))
    assert not np.any(gradient(lambda x: losses.baseline_loss(advantages, x), log_ratios)), "nor do targets of values"


def test_standardise():
    rng = np.random.default_rng(0)
    x = 5 + 3 * rng.standard_normal((T, B))
    counted = rng.random((T, B)) < 0.5
    expected = np.where(counted, (x - x[counted].mean()) / x[counted].std(), 0)
    np.testing.assert_allclose(losses.standardise(x, counted), expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(losses.standardise(1e-9 * x, counted), expected, rtol=1e-4, atol=1e-5)
    assert np.abs(losses.standardise(tf.fill([T, B], 0.1), tf.ones([T, B]))).max() < 0.2, "equal, and not blown up"
