"""The categorical distribution against closed forms, and its samples against frequencies."""

import numpy as np
import pytest
import tensorflow as tf

from seed_rl.rl.distributions import Categorical
from tests.support.gradients import gradient

categorical = Categorical(6)


def softmax(logits):
    e = np.exp(logits - logits.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


@pytest.fixture
def logits():
    return np.random.default_rng(0).normal(0, 3, (4, 3, 6)).astype(np.float32)


def test_log_prob_is_that_of_the_softmax(logits):
    actions = np.random.default_rng(1).integers(0, 6, (4, 3))
    expected = np.log(np.take_along_axis(softmax(logits), actions[..., None], -1))[..., 0]
    log_prob = categorical.log_prob(logits, actions)
    assert log_prob.shape == (4, 3)
    assert log_prob.dtype == tf.float32
    np.testing.assert_allclose(log_prob, expected, rtol=1e-5, atol=1e-6)
    by_logits = gradient(lambda x: tf.reduce_sum(categorical.log_prob(x, actions)), logits)
    np.testing.assert_allclose(by_logits, np.eye(6)[actions] - softmax(logits), atol=1e-6)


def test_entropy_is_that_of_the_softmax(logits):
    p = softmax(logits)
    expected = -np.sum(p * np.log(p), -1)
    entropy = categorical.entropy(logits)
    assert entropy.shape == (4, 3)
    assert entropy.dtype == tf.float32
    np.testing.assert_allclose(entropy, expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(gradient(categorical.entropy, logits), -p * (np.log(p) + expected[..., None]), atol=1e-6)


@pytest.mark.parametrize("scale", [1e3, 1e9, 1e30])
def test_extreme_logits_stay_finite_with_their_gradients(scale):
    x = tf.constant([[scale, -scale, 0.0], [-scale, -scale, -scale]])
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        entropy = categorical.entropy(x)
        log_prob = categorical.log_prob(x, [0, 1])
    np.testing.assert_allclose(entropy, [0.0, np.log(3.0)], atol=1e-6)
    np.testing.assert_allclose(log_prob, [0.0, -np.log(3.0)], atol=1e-6)
    np.testing.assert_allclose(categorical.log_prob(x, [1, 0])[0], -2.0 * scale)
    assert np.all(np.isfinite(tape.gradient(entropy, x)))
    assert np.all(np.isfinite(tape.gradient(log_prob, x)))


def test_bfloat16_logits_are_computed_in_float32(logits):
    x = tf.cast(logits, tf.bfloat16)
    exact = tf.cast(x, tf.float32)
    np.testing.assert_array_equal(categorical.entropy(x), categorical.entropy(exact))
    actions = np.zeros((4, 3), np.int32)
    np.testing.assert_array_equal(categorical.log_prob(x, actions), categorical.log_prob(exact, actions))
    np.testing.assert_array_equal(categorical.sample(x, [1, 2]), categorical.sample(exact, [1, 2]))
    assert categorical.entropy(x).dtype == categorical.log_prob(x, actions).dtype == tf.float32


@pytest.fixture(scope="module", params=[False, True], ids=["plain", "compiled"])
def sample(request):
    return tf.function(categorical.sample, jit_compile=request.param, autograph=False)


def test_samples_follow_the_softmax(sample):
    logits = np.array([2.0, 0.0, -1.0, 1.0, -6.0], np.float32)
    count = 200_000
    actions = sample(tf.tile(logits[None], [count, 1]), tf.constant([3, 4]))
    assert actions.shape == (count,)
    assert actions.dtype == tf.int32
    p = softmax(logits)
    frequencies = np.bincount(actions, minlength=5) / count
    np.testing.assert_array_less(np.abs(frequencies - p), 5 * np.sqrt(p * (1 - p) / count))


def test_the_seed_decides_the_samples(sample, logits):
    wide = tf.tile(logits, [10, 1, 1])
    samples = sample(wide, tf.constant([1, 2]))
    np.testing.assert_array_equal(sample(wide, tf.constant([1, 2])), samples)
    for other in ([1, 3], [2, 2]):
        assert np.any(np.asarray(sample(wide, tf.constant(other)) != samples))


def test_an_impossible_action_is_never_sampled(sample):
    logits = tf.tile([[-1e9, 0.0, -1e9]], [50_000, 1])
    np.testing.assert_array_equal(sample(logits, tf.constant([0, 0])), np.ones(50_000))


def test_greedy_is_the_most_probable_and_the_first_of_equals(logits):
    np.testing.assert_array_equal(categorical.mode(logits), logits.argmax(-1))
    assert categorical.mode([0.0, 1.0, 1.0]).numpy() == 1
    assert categorical.mode(logits).dtype == tf.int32


def test_wrong_shapes_are_named(logits):
    with pytest.raises(ValueError, match="actions must have"):
        categorical.log_prob(logits, np.zeros((4, 1), np.int32))
    with pytest.raises(ValueError, match="actions must have"):
        categorical.log_prob(logits, np.zeros((4, 3, 1), np.int32))
    with pytest.raises(ValueError, match="seed must have"):
        categorical.sample(logits, 1)
    with pytest.raises(ValueError, match="logits must have"):
        categorical.entropy(1.0)
