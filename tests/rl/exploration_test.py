"""The ladder of epsilons, and epsilon-greedy actions against closed-form frequencies."""

import numpy as np
import pytest
import tensorflow as tf

from seed_rl.rl.exploration import epsilon_greedy, epsilon_ladder


def test_the_ladder_goes_down_from_end_to_end():
    epsilons = epsilon_ladder(256)
    assert np.all(np.diff(epsilons) < 0)
    np.testing.assert_allclose(epsilons[[0, -1]], [0.4, 0.4**8], rtol=1e-6)
    np.testing.assert_allclose(epsilon_ladder(4, base=0.5, low=1, high=7), [2**-1, 2**-3, 2**-5, 2**-7], rtol=1e-6)
    np.testing.assert_allclose(epsilon_ladder(1, base=0.5, low=3.0, high=9.0), [0.125])
    assert epsilon_ladder(0).shape == (0,)


def test_each_environment_explores_as_often_as_its_own_epsilon_says():
    count, epsilons = 100_000, np.float32([0.0, 0.3, 1.0])
    q = tf.tile([[0.0, -1.0, 0.5, 2.0, 1.9]], [3 * count, 1])
    actions = epsilon_greedy(q, np.repeat(epsilons, count), tf.constant([3, 4]))
    assert actions.dtype == tf.int32
    for epsilon, own in zip(epsilons, np.split(actions.numpy(), 3), strict=True):
        p = np.full(5, epsilon / 5)
        p[3] += 1 - epsilon
        frequencies = np.bincount(own, minlength=5) / count
        assert np.all(np.abs(frequencies - p) <= 5 * np.sqrt(p * (1 - p) / count))


def test_without_exploration_it_is_the_first_of_the_best():
    q = np.float32([[1.0, 3.0, 3.0], [2.0, 2.0, 2.0], [-1.0, -3.0, -0.5]])
    np.testing.assert_array_equal(epsilon_greedy(q, np.zeros(3), [5, 6]), [1, 0, 2])


def test_the_seed_alone_decides_eagerly_and_compiled_by_xla():
    q = np.random.default_rng(0).standard_normal((1000, 6)).astype(np.float32)
    epsilon, seed = epsilon_ladder(1000, low=0.0), tf.constant([5, 6])
    compiled = tf.function(epsilon_greedy, jit_compile=True, autograph=False)(q, epsilon, seed)
    assert 100 < np.sum(compiled != q.argmax(-1)) < 900
    np.testing.assert_array_equal(compiled, epsilon_greedy(q, epsilon, seed))
    for other in ([5, 7], [6, 6]):
        assert np.any(compiled != epsilon_greedy(q, epsilon, tf.constant(other)))


def test_there_must_be_an_action():
    with pytest.raises(ValueError, match="q must have a last axis of known length, at least 1"):
        epsilon_greedy(np.zeros((3, 0)), np.zeros(3), [0, 0])
