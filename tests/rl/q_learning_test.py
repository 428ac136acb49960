"""Quantile regression, and priorities of sequences. Double Q-learning's values, errors, loss and gradients are in
`agents/r2d2_loss_test.py`."""

import numpy as np
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


def test_a_single_quantile_has_half_the_huber_loss_and_small_errors_a_quarter_of_their_square():
    theta, target = np.zeros((1, 3, 1)), np.array([[[0.5], [-0.5], [-3.0]]])
    np.testing.assert_allclose(q_learning.quantile_huber_losses(theta, target), [[0.0625, 0.0625, 1.25]])
