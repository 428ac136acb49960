"""Action masks: what they rule out has no probability, no gradient and no part in entropy, exploration and means."""

import math

import numpy as np
import pytest
import tensorflow as tf

from seed_rl.rl import masks
from seed_rl.rl.distributions import Categorical, Joint
from seed_rl.rl.exploration import epsilon_greedy
from tests.support.gradients import gradient

LEGAL = np.array([[1, 0, 1, 0, 1], [0, 0, 0, 1, 0], [1, 1, 1, 1, 1]], bool)
SCORES = np.random.default_rng(1).normal(size=LEGAL.shape).astype(np.float32)


def test_bits_become_legal_actions_and_a_choice_without_any_has_all():
    values = np.random.default_rng(0).random((2, 3, 11)) < 0.4
    values[0, 1, 3:] = False
    values[1, 2] = False
    packed = np.packbits(values, axis=-1, bitorder="little")
    expected = values.copy()
    for part in (expected[..., :3], expected[..., 3:]):
        part |= ~part.any(-1, keepdims=True)
    assert (expected != values).sum() >= 19
    np.testing.assert_array_equal(masks.legal_actions(packed, (3, 8)), expected)


def test_a_masked_distribution_is_that_of_the_legal_actions_alone():
    scores, full = masks.mask_illegal(SCORES, LEGAL).numpy(), Categorical(5)
    for row, legal in zip(scores, LEGAL, strict=True):
        few, kept = Categorical(int(legal.sum())), row[legal]
        log_probs = full.log_prob(np.tile(row, (5, 1)), np.arange(5)).numpy()
        alone = few.log_prob(np.tile(kept, (len(kept), 1)), np.arange(len(kept)))
        np.testing.assert_allclose(log_probs[legal], alone, rtol=1e-6)
        assert not np.exp(log_probs[~legal]).any()
        np.testing.assert_allclose(full.entropy(row), few.entropy(kept), rtol=1e-5, atol=1e-6)
        assert float(full.max_entropy(row)) == pytest.approx(math.log(len(kept)))
        slope = gradient(full.entropy, row)
        np.testing.assert_allclose(slope[legal], gradient(few.entropy, kept), atol=1e-6)
        assert not slope[~legal].any()
    both = Joint((5, 2))
    joined = np.concatenate([scores, np.zeros((3, 2))], axis=1)
    np.testing.assert_allclose(both.max_entropy(joined), full.max_entropy(scores) + math.log(2), rtol=1e-6)


def test_illegal_actions_get_no_gradient_and_change_no_mean_and_numbers_behind_them_stay():
    outside = gradient(lambda x: tf.reduce_sum(tf.where(LEGAL, masks.mask_illegal(x, LEGAL), 0.0) ** 2), SCORES)
    np.testing.assert_allclose(outside, np.where(LEGAL, 2 * SCORES, 0), rtol=1e-6)
    means = [row[legal].mean() for row, legal in zip(SCORES, LEGAL, strict=True)]
    np.testing.assert_allclose(masks.legal_mean(tf.constant(SCORES), tf.constant(LEGAL))[:, 0], means, rtol=1e-6)
    np.testing.assert_array_equal(masks.is_legal(masks.mask_illegal(SCORES, LEGAL)), LEGAL)
    numbers = np.float32([[0.5, -2.0]] * len(SCORES))
    masked = masks.mask_illegal(tf.constant(np.concatenate([SCORES, numbers], axis=1)), tf.constant(LEGAL))
    np.testing.assert_array_equal(masked, np.concatenate([np.where(LEGAL, SCORES, masks.ILLEGAL), numbers], axis=1))


def test_exploration_draws_the_legal_actions_equally_often():
    count = 60_000
    scores = tf.tile(masks.mask_illegal(SCORES, LEGAL), [count, 1])
    actions = np.reshape(epsilon_greedy(scores, tf.ones([3 * count]), tf.constant([1, 2]), masked=True), (count, 3))
    shares = np.stack([np.bincount(own, minlength=5) for own in actions.T]) / count
    np.testing.assert_allclose(shares, LEGAL / LEGAL.sum(axis=1, keepdims=True), atol=0.01)
    assert not shares[~LEGAL].any()
