"""The ladder of epsilons, epsilon-greedy actions and held actions against closed-form frequencies."""

import numpy as np
import tensorflow as tf

from seed_rl.rl.exploration import Holding, epsilon_greedy, epsilon_ladder, hold


def test_the_ladder_goes_down_from_end_to_end():
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
    # Without exploration, it is the first of the best.
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


HOLDS = [tf.function(hold, jit_compile=compiled) for compiled in (False, True)]


def held_for(steps, count, **changes):
    """The result of each of some steps, [steps, count], and the durations after them; by default without a reward."""
    holding, results = Holding(*tf.zeros([2, count], tf.int32)), []
    for t in range(steps):
        arguments = {"reward": np.zeros(count, np.float32), "allowed": np.ones(count, bool), "patience": 0, **changes}
        arguments = {name: own(t) if callable(own) else own for name, own in arguments.items()}
        holds, holding = HOLDS[t % 2](holding, seed=tf.constant([7, t]), **arguments)
        results.append(holds)
    return np.array(results), holding


def test_an_action_is_held_for_n_steps_with_a_probability_of_one_by_n():
    count = 100_000
    holds, holding = held_for(12, count)
    assert not holds[0].any(), "nothing to hold yet"
    durations = 1 + np.cumprod(holds[1:], axis=0).sum(axis=0)  # of the first decision
    for n in range(2, 13):
        share = np.mean(durations >= n)
        assert abs(share - 1 / n) <= 5 * np.sqrt((1 - 1 / n) / n / count)
    assert np.all(holding.unrewarded == 12)
    assert np.array_equal(holding.held == 12, holds[1:].all(axis=0))


def test_an_action_is_held_only_after_a_time_without_any_reward():
    reward = np.float32([0.0, -1e-9, 2.0])
    holds, holding = held_for(60, 3, patience=30, reward=lambda t: reward * (t == 40))
    assert not holds[:30].any()
    assert holds[30:40].any(axis=0).all()
    np.testing.assert_array_equal(holding.unrewarded, [60, 19, 19])
    assert holds[40:, 0].any()
    assert not holds[40:, 1:].any()
    np.testing.assert_array_equal(holding.held[1:], 1, "each step is a decision")


def test_an_action_that_may_not_be_taken_again_is_not_held():
    allowed = np.array([False, True])
    holds, holding = held_for(30, 2, allowed=allowed)
    np.testing.assert_array_equal(holds.any(axis=0), allowed)
    assert holding.held[0] == 1
