"""V-trace against its formula, and the estimators that it reduces to."""

import numpy as np
import pytest
import tensorflow as tf

from seed_rl.rl.vtrace import VTraceReturns, lambda_returns, vtrace


def random_inputs(length=7, batch=5):
    """Arguments by name, with an episode ending at about one step in five."""
    rng = np.random.default_rng(0)
    discount = np.where(rng.random((length, batch)) < 0.2, 0.0, rng.uniform(0.8, 1.0, (length, batch)))
    return {
        "log_rhos": 1.5 * rng.standard_normal((length, batch)),
        "discount_t": discount,
        "r_t": rng.standard_normal((length, batch)),
        "values": rng.standard_normal((length, batch)),
        "bootstrap_value": rng.standard_normal(batch),
    }


def ground_truth(log_rhos, discount_t, r_t, values, bootstrap_value, lambda_=1.0, clip_rho=1.0, clip_pg_rho=1.0):
    """The sum and the products of IMPALA's equation (1), written out; float64."""
    length = len(r_t)
    ratio = np.exp(log_rhos)
    rho = ratio if clip_rho is None else np.minimum(clip_rho, ratio)
    c = lambda_ * np.minimum(1.0, ratio)
    v = np.concatenate([values, bootstrap_value[None]])
    vs = []
    for s in range(length):
        total = np.array(v[s])
        for t in range(s, length):
            weight = np.prod(discount_t[s:t] * c[s:t], axis=0)
            total += weight * rho[t] * (r_t[t] + discount_t[t] * v[t + 1] - v[t])
        vs.append(total)
    vs_tp1 = np.stack([*vs[1:], bootstrap_value])
    pg_rho = ratio if clip_pg_rho is None else np.minimum(clip_pg_rho, ratio)
    advantages = r_t + discount_t * vs_tp1 - values
    return VTraceReturns(np.stack(vs), advantages, pg_rho * advantages)


def assert_close(actual, expected):
    for field, a, e in zip(VTraceReturns._fields, actual, expected, strict=True):
        assert np.shape(a) == np.shape(e)
        np.testing.assert_allclose(a, e, rtol=2e-5, atol=2e-5, err_msg=field)


@pytest.mark.parametrize(
    ("length", "batch", "settings"),
    [
        (1, 4, {"lambda_": 0.9}),
        (2, 1, {"lambda_": 0.0}),
        (7, 5, {"clip_rho": None, "clip_pg_rho": None, "lambda_": 0.95}),
        (8, 2, {"clip_rho": 3.7, "clip_pg_rho": 2.2}),
        (9, 2, {"clip_rho": 0.4, "clip_pg_rho": 0.3}),
        (100, 2, {}),
    ],
)
def test_equals_the_formula_with_episodes_ending_in_mid_sequence(length, batch, settings):
    inputs = random_inputs(length, batch)
    assert length < 7 or np.any(inputs["discount_t"][1:-1] == 0)
    assert_close(vtrace(**inputs, **settings), ground_truth(**inputs, **settings))


@pytest.mark.parametrize("lambda_", [0.0, 0.5])
def test_on_policy_targets_are_the_lambda_return(lambda_):
    inputs = random_inputs()
    del inputs["log_rhos"]
    values_tp1 = np.concatenate([inputs["values"][1:], inputs["bootstrap_value"][None]])
    expected, target = [], inputs["bootstrap_value"]
    for r, discount, v in zip(inputs["r_t"][::-1], inputs["discount_t"][::-1], values_tp1[::-1], strict=True):
        target = r + discount * ((1 - lambda_) * v + lambda_ * target)
        expected.insert(0, target)
    np.testing.assert_allclose(lambda_returns(**inputs, lambda_=lambda_), np.stack(expected), rtol=1e-5, atol=1e-5)


def test_an_episode_that_ends_in_a_last_state_is_a_trajectory_of_its_own():
    """That state's value is bootstrapped from, and the action taken in it leads nowhere."""
    inputs, last = random_inputs(16, 4), np.random.default_rng(1).random((16, 4)) < 0.2
    inputs["discount_t"][last] = 0.0
    returns = vtrace(**inputs, last_t=last, lambda_=0.8)
    np.testing.assert_allclose(returns.vs.numpy()[last], inputs["values"][last], rtol=0, atol=1e-6)
    assert not np.any(returns.pg_advantages.numpy()[last])
    values = np.concatenate([inputs["values"], inputs.pop("bootstrap_value")[None]])
    for b in range(4):
        begin = 0
        for end in (*np.flatnonzero(last[:, b]), 16):
            rows = np.s_[begin:end, b : b + 1]
            if end > begin:
                own = {name: array[rows] for name, array in inputs.items()}
                expected = vtrace(**own, bootstrap_value=values[end, b : b + 1], lambda_=0.8)
                assert_close([whole[rows] for whole in returns], expected)
            begin = end + 1


def test_infinite_ratios_are_clipped():
    inputs = random_inputs()
    inputs["log_rhos"][:, 0] = 1000.0
    inputs["log_rhos"][:, 1] = -1000.0
    on_policy = inputs | {"log_rhos": np.zeros((7, 5))}
    returns = vtrace(**inputs)
    assert_close([x[:, 0] for x in returns], [x[:, 0] for x in vtrace(**on_policy)])
    np.testing.assert_allclose(returns.vs[:, 1], inputs["values"][:, 1], rtol=2e-5)
    np.testing.assert_allclose(returns.pg_advantages[:, 1], np.zeros(7), atol=2e-5)


def test_no_gradient_flows():
    inputs = {name: tf.constant(x, tf.float32) for name, x in random_inputs().items()}
    with tf.GradientTape() as tape:
        tape.watch(inputs)
        total = tf.add_n([tf.reduce_sum(x) for x in vtrace(**inputs)])
    assert set(tape.gradient(total, inputs).values()) == {None}
