"""V-trace against its formula, the estimators that it reduces to, and its own compiled form."""

import numpy as np
import pytest
import tensorflow as tf

from seed_rl.rl.vtrace import VTraceReturns, vtrace

FIELDS = ("log_rhos", "discount_t", "r_t", "values", "bootstrap_value")


def random_inputs(length=7, batch=5, seed=0, log_rho_scale=1.5):
    """Arguments by name, with an episode ending at about one step in five."""
    rng = np.random.default_rng(seed)
    discount = np.where(rng.random((length, batch)) < 0.2, 0.0, rng.uniform(0.8, 1.0, (length, batch)))
    return {
        "log_rhos": log_rho_scale * rng.standard_normal((length, batch)),
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


def assert_close(actual, expected, **tolerance):
    for field, a, e in zip(VTraceReturns._fields, actual, expected, strict=True):
        assert np.shape(a) == np.shape(e)
        np.testing.assert_allclose(a, e, err_msg=field, **({"rtol": 2e-5, "atol": 2e-5} | tolerance))


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"lambda_": 0.9},
        {"lambda_": 0.0},
        {"clip_rho": 3.7, "clip_pg_rho": 2.2},
        {"clip_rho": 0.4, "clip_pg_rho": 0.3},
        {"clip_rho": None, "clip_pg_rho": None, "lambda_": 0.95},
    ],
)
def test_equals_the_formula_with_episodes_ending_in_mid_sequence(settings):
    inputs = random_inputs()
    assert 0 < np.sum(inputs["discount_t"][1:-1] == 0) < inputs["discount_t"][1:-1].size
    assert_close(vtrace(**inputs, **settings), ground_truth(**inputs, **settings))


@pytest.mark.parametrize(
    ("length", "batch"), [(1, 1), (1, 4), (2, 1), (3, 3), (4, 2), (5, 1), (8, 2), (9, 2), (100, 2)]
)
def test_equals_the_formula_at_any_length(length, batch):
    inputs = random_inputs(length, batch, seed=length)
    returns = vtrace(**inputs)
    assert returns.vs.shape == returns.pg_advantages.shape == (length, batch)
    assert_close(returns, ground_truth(**inputs))


@pytest.mark.parametrize("lambda_", [0.0, 0.5, 0.95])
def test_on_policy_targets_are_the_lambda_return(lambda_):
    inputs = random_inputs() | {"log_rhos": np.zeros((7, 5))}
    values_tp1 = np.concatenate([inputs["values"][1:], inputs["bootstrap_value"][None]])
    expected, target = [], inputs["bootstrap_value"]
    for r, discount, v in zip(inputs["r_t"][::-1], inputs["discount_t"][::-1], values_tp1[::-1], strict=True):
        target = r + discount * ((1 - lambda_) * v + lambda_ * target)
        expected.insert(0, target)
    np.testing.assert_allclose(vtrace(**inputs, lambda_=lambda_).vs, np.stack(expected), rtol=1e-5, atol=1e-5)


def test_infinite_ratios_are_clipped():
    inputs = random_inputs()
    inputs["log_rhos"][:, 0] = 1000.0
    inputs["log_rhos"][:, 1] = -1000.0
    on_policy = inputs | {"log_rhos": np.zeros((7, 5))}
    returns = vtrace(**inputs)
    assert_close([x[:, 0] for x in returns], [x[:, 0] for x in vtrace(**on_policy)])
    np.testing.assert_allclose(returns.vs[:, 1], inputs["values"][:, 1], rtol=2e-5)
    np.testing.assert_allclose(returns.pg_advantages[:, 1], np.zeros(7), atol=2e-5)


@pytest.mark.parametrize("field", FIELDS)
def test_no_gradient_flows(field):
    inputs = {name: tf.constant(x, tf.float32) for name, x in random_inputs().items()}
    with tf.GradientTape() as tape:
        tape.watch(inputs[field])
        returns = vtrace(**inputs)
        total = tf.reduce_sum(returns.vs) + tf.reduce_sum(returns.pg_advantages) + 0 * tf.reduce_sum(inputs[field])
    np.testing.assert_array_equal(tape.gradient(total, inputs[field]), np.zeros(inputs[field].shape))


def test_compiled_by_xla_it_is_the_same():
    inputs = {name: tf.constant(x, tf.float32) for name, x in random_inputs(20, 4).items()}
    compiled = tf.function(lambda: vtrace(**inputs, lambda_=0.95), jit_compile=True, autograph=False)
    assert_close(compiled(), vtrace(**inputs, lambda_=0.95), rtol=1e-5, atol=1e-6)


def test_results_are_float32_whatever_the_arguments():
    inputs = {name: tf.cast(x, tf.bfloat16) for name, x in random_inputs().items()}
    assert {x.dtype for x in vtrace(**inputs)} == {tf.float32}
    assert {x.dtype for x in vtrace(**random_inputs())} == {tf.float32}


@pytest.mark.parametrize("field", FIELDS)
def test_a_wrong_shape_is_named(field):
    inputs = random_inputs()
    shape = inputs[field].shape
    for wrong in (shape[:-1], (*shape, 1), (*shape[:-1], 1)):
        if field == "log_rhos" and wrong == (7, 1):
            continue  # valid alone: then the other shapes are the wrong ones
        with pytest.raises(ValueError, match=rf"{field} must have"):
            vtrace(**(inputs | {field: np.zeros(wrong, np.float32)}))


def test_an_empty_sequence_is_refused():
    with pytest.raises(ValueError, match="log_rhos must have a first axis of known length"):
        vtrace(*[np.zeros((0, 3))] * 4, np.zeros(3))
