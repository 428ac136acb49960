"""Q-learning's terms and their gradients against their formulas."""

import numpy as np
import pytest
import tensorflow as tf

from seed_rl.rl import q_learning
from seed_rl.rl.n_step import n_step_returns
from seed_rl.rl.value_rescaling import IDENTITY, SIGNED_HYPERBOLIC
from tests.support.gradients import gradient

T, B, A = 6, 3, 4
FIELDS = ("q_tm1", "r_t", "discount_t", "v_t")


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def td_inputs(rng, length=T, batch=B):
    """Arguments of `n_step_td_errors` by name, with an episode ending at every fourth step or so."""
    inputs = {name: rng.standard_normal((length, batch)) for name in FIELDS}
    inputs["discount_t"] = np.full((length, batch), 0.9)
    inputs["discount_t"].flat[2::4] = 0.0
    return inputs


def test_q_of_actions_picks_one_value_per_step(rng):
    q, actions = rng.standard_normal((T, B, A)).astype(np.float32), rng.integers(0, A, (T, B))
    picked = q_learning.q_of_actions(q, actions)
    assert picked.shape == (T, B)
    for t, b in np.ndindex(T, B):
        assert picked[t, b] == q[t, b, actions[t, b]]
    weights = rng.standard_normal((T, B)).astype(np.float32)
    by_q = gradient(lambda x: tf.reduce_sum(weights * q_learning.q_of_actions(x, actions)), q)
    np.testing.assert_array_equal(by_q, np.eye(A, dtype=np.float32)[actions] * weights[..., None])


def test_double_q_picks_by_the_online_network_and_values_by_the_target_network():
    online = [[[1.0, 5.0, 2.0], [9.0, 3.0, 3.0]]]
    target = [[[7.0, -1.0, 8.0], [0.5, 6.0, 4.0]]]
    np.testing.assert_array_equal(q_learning.double_q_values(online, target), [[-1.0, 0.5]])
    np.testing.assert_array_equal(q_learning.double_q_values(target, online), [[2.0, 3.0]])
    np.testing.assert_array_equal(q_learning.double_q_values(online, online), np.max(online, -1))
    first_of_equals = q_learning.double_q_values([[[0.0, 2.0, 2.0]]], [[[5.0, 6.0, 7.0]]])
    np.testing.assert_array_equal(first_of_equals, [[6.0]])
    by_online = gradient(lambda x: tf.reduce_sum(q_learning.double_q_values(x, target)), np.array(online))
    assert not np.any(by_online)


@pytest.mark.parametrize("shape", [(T, B), (1, 1), (1, B), (T, 1)])
def test_returns_are_in_units_of_reward_and_errors_in_those_of_the_network(rng, shape):
    inputs = td_inputs(rng, *shape)
    inputs["r_t"] *= 100.0
    returns = n_step_returns(inputs["r_t"], inputs["discount_t"], SIGNED_HYPERBOLIC.inverse(inputs["v_t"]), 3)
    errors = q_learning.n_step_td_errors(**inputs, n=3, transform=SIGNED_HYPERBOLIC)
    assert errors.shape == shape
    returns = np.asarray(returns, np.float64)
    targets = np.sign(returns) * (np.sqrt(np.abs(returns) + 1) - 1) + 1e-3 * returns
    np.testing.assert_allclose(errors, targets - inputs["q_tm1"], rtol=1e-4, atol=1e-5)


def test_sequence_loss_sums_over_steps_and_averages_over_sequences(rng):
    errors, weights = rng.standard_normal((T, B)), rng.uniform(0, 1, B)
    expected = np.mean([weights[b] * 0.5 * sum(errors[t, b] ** 2 for t in range(T)) for b in range(B)])
    loss = q_learning.sequence_loss(errors, weights)
    assert loss.shape == ()
    np.testing.assert_allclose(loss, expected, rtol=1e-5)
    assert not np.any(gradient(lambda x: q_learning.sequence_loss(errors, x), weights))


def test_priorities_mix_the_largest_and_the_mean_error(rng):
    errors = rng.standard_normal((T, B))
    expected = 0.9 * np.abs(errors).max(axis=0) + 0.1 * np.abs(errors).mean(axis=0)
    priorities = q_learning.sequence_priorities(errors)
    assert priorities.shape == (B,)
    np.testing.assert_allclose(priorities, expected, rtol=1e-5)
    np.testing.assert_allclose(q_learning.sequence_priorities(errors, eta=0.0), np.abs(errors).mean(axis=0), rtol=1e-5)
    np.testing.assert_allclose(q_learning.sequence_priorities(errors, eta=1.0), np.abs(errors).max(axis=0), rtol=1e-5)
    assert not np.any(gradient(lambda x: tf.reduce_sum(q_learning.sequence_priorities(x)), errors))


def test_one_step_of_one_sequence():
    errors = q_learning.n_step_td_errors([[1.0]], [[2.0]], [[0.5]], [[4.0]], n=5, transform=IDENTITY)
    np.testing.assert_array_equal(errors, [[3.0]])
    assert float(q_learning.sequence_loss(errors, [2.0])) == 9.0
    np.testing.assert_allclose(q_learning.sequence_priorities(errors), [3.0])


def test_results_are_float32_even_of_bfloat16():
    q, x = tf.ones([T, B, A], tf.bfloat16), tf.ones([T, B], tf.bfloat16)
    assert q_learning.q_of_actions(q, tf.zeros([T, B], tf.int32)).dtype == tf.float32
    assert q_learning.double_q_values(q, q).dtype == tf.float32
    assert q_learning.n_step_td_errors(x, x, x, x, 2, SIGNED_HYPERBOLIC).dtype == tf.float32
    assert q_learning.sequence_loss(x, x[0]).dtype == tf.float32
    assert q_learning.sequence_priorities(x).dtype == tf.float32


def td_errors(**arguments):
    return q_learning.n_step_td_errors(**arguments, n=2, transform=IDENTITY)


@pytest.mark.parametrize(
    ("function", "name", "right", "wrong"),
    [
        (q_learning.q_of_actions, "q", {"actions": (T, B)}, [(T, B), (T, B, A, 1)]),
        (q_learning.q_of_actions, "actions", {"q": (T, B, A)}, [(T,), (T, 1), (T, B, 1)]),
        (q_learning.double_q_values, "online_q", {"target_q": (T, B, A)}, [(B, A)]),
        (q_learning.double_q_values, "target_q", {"online_q": (T, B, A)}, [(B, A), (T, 1, A), (T, B, 1)]),
        (td_errors, "q_tm1", {"r_t": (T, B), "discount_t": (T, B), "v_t": (T, B)}, [(T,), (T, B, 1)]),
        (td_errors, "r_t", {"q_tm1": (T, B), "discount_t": (T, B), "v_t": (T, B)}, [(T,), (T, B, 1), (T, 1)]),
        (td_errors, "discount_t", {"q_tm1": (T, B), "r_t": (T, B), "v_t": (T, B)}, [(T,), (T, B, 1), (T, 1)]),
        (td_errors, "v_t", {"q_tm1": (T, B), "r_t": (T, B), "discount_t": (T, B)}, [(T,), (T, B, 1), (T, 1)]),
        (q_learning.sequence_loss, "td_errors", {"importance_weights": (B,)}, [(T,), (T, B, 1)]),
        (q_learning.sequence_loss, "importance_weights", {"td_errors": (T, B)}, [(), (1,), (T, B)]),
        (q_learning.sequence_priorities, "td_errors", {}, [(T,), (T, B, 1), (0, B)]),
    ],
)
def test_a_wrong_shape_is_named(function, name, right, wrong):
    for shape in wrong:
        arguments = {other: np.zeros(value, np.int32) for other, value in right.items()}
        with pytest.raises(ValueError, match=f"{name} must have"):
            function(**arguments, **{name: np.zeros(shape, np.int32)})
