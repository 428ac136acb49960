"""The ladder of epsilons, and epsilon-greedy actions against closed-form frequencies."""

import numpy as np
import pytest
import tensorflow as tf

from seed_rl.rl.exploration import epsilon_greedy, epsilon_ladder


def test_the_ladder_goes_down_from_end_to_end():
    epsilons = epsilon_ladder(256)
    assert epsilons.shape == (256,)
    assert epsilons.dtype == np.float32
    assert np.all(np.diff(epsilons) < 0)
    np.testing.assert_allclose(epsilons[[0, -1]], [0.4, 0.4**8], rtol=1e-6)
    np.testing.assert_allclose(epsilon_ladder(4, base=0.5, low=1, high=7), [2**-1, 2**-3, 2**-5, 2**-7], rtol=1e-6)


def test_ladders_of_one_of_none_and_of_less():
    np.testing.assert_allclose(epsilon_ladder(1, base=0.5, low=3.0, high=9.0), [0.125])
    assert epsilon_ladder(0).shape == (0,)
    assert epsilon_ladder(0).dtype == np.float32
    with pytest.raises(ValueError, match="num_envs must be at least 0, got -1"):
        epsilon_ladder(-1)


@pytest.fixture(scope="module")
def choose():
    return tf.function(epsilon_greedy, jit_compile=True, autograph=False)


@pytest.mark.parametrize("epsilon", [0.01, 0.9])
def test_frequencies(choose, epsilon):
    count, num_actions, best = 200_000, 5, 3
    q = tf.tile([[0.0, -1.0, 0.5, 2.0, 1.9]], [count, 1])
    actions = choose(q, tf.fill([count], epsilon), tf.constant([3, 4]))
    assert actions.shape == (count,)
    assert actions.dtype == tf.int32
    p = np.full(num_actions, epsilon / num_actions)
    p[best] += 1 - epsilon
    frequencies = np.bincount(actions, minlength=num_actions) / count
    np.testing.assert_array_less(np.abs(frequencies - p), 5 * np.sqrt(p * (1 - p) / count))


def test_each_environment_has_its_own_epsilon(choose):
    q = tf.tile([[0.0, 1.0]], [300_000, 1])
    epsilon = np.tile(np.float32([0.0, 0.3, 1.0]), 100_000)
    explored = np.mean(np.reshape(choose(q, epsilon, tf.constant([7, 8])), (-1, 3)) == 0, axis=0)
    assert explored[0] == 0
    np.testing.assert_allclose(explored[1:], [0.15, 0.5], atol=0.01)


def test_without_exploration_it_is_the_first_of_the_best(choose):
    q = np.float32([[1.0, 3.0, 3.0], [2.0, 2.0, 2.0], [-1.0, -3.0, -0.5]])
    for seed in range(10):
        np.testing.assert_array_equal(choose(q, np.zeros(3, np.float32), tf.constant([seed, 0])), [1, 0, 2])


def test_the_seed_decides_the_actions(choose):
    q, epsilon = tf.zeros([200, 4]), tf.fill([200], 0.9)
    actions = choose(q, epsilon, tf.constant([1, 2]))
    np.testing.assert_array_equal(choose(q, epsilon, tf.constant([1, 2])), actions)
    for other in ([1, 3], [2, 2]):
        assert np.any(np.asarray(choose(q, epsilon, tf.constant(other)) != actions))


def test_compiled_by_xla_it_is_the_same():
    q = np.random.default_rng(0).standard_normal((1000, 6)).astype(np.float32)
    epsilon, seed = epsilon_ladder(1000, low=0.0), tf.constant([5, 6])
    compiled = tf.function(epsilon_greedy, jit_compile=True, autograph=False)(q, epsilon, seed)
    assert 100 < np.sum(compiled != q.argmax(-1)) < 900
    np.testing.assert_array_equal(compiled, epsilon_greedy(q, epsilon, seed))
    np.testing.assert_array_equal(compiled, tf.function(epsilon_greedy, autograph=False)(q, epsilon, seed))


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("q", (3,)),
        ("q", (3, 2, 1)),
        ("q", (3, 0)),
        ("epsilon", ()),
        ("epsilon", (1,)),
        ("epsilon", (3, 1)),
        ("seed", (3,)),
    ],
)
def test_a_wrong_shape_is_named(name, wrong):
    inputs = {"q": np.zeros((3, 2)), "epsilon": np.zeros(3), "seed": np.zeros(2, np.int32)}
    with pytest.raises(ValueError, match=f"{name} must have"):
        epsilon_greedy(**(inputs | {name: np.zeros(wrong)}))
