"""Value transforms against their formulas in float64, their round trips and their gradients."""

import numpy as np
import pytest
import tensorflow as tf

from seed_rl.rl.value_rescaling import IDENTITY, SIGNED_HYPERBOLIC
from tests.support.gradients import gradient

EPSILON = 1e-3
MAGNITUDES = np.logspace(-6, 6, 1201)
X = np.concatenate([-MAGNITUDES[::-1], MAGNITUDES]).astype(np.float32)


def h(x):
    """The definition in float64."""
    x = np.asarray(x, np.float64)
    return np.sign(x) * (np.sqrt(np.abs(x) + 1) - 1) + EPSILON * x


@pytest.fixture(params=["eager", "plain", "compiled"])
def transform(request):
    if request.param == "eager":
        return SIGNED_HYPERBOLIC
    jit_compile = request.param == "compiled"
    return type(SIGNED_HYPERBOLIC)(
        *(tf.function(function, jit_compile=jit_compile, autograph=False) for function in SIGNED_HYPERBOLIC)
    )


def test_apply_is_the_formula(transform):
    large = np.abs(X) > 1e-3  # below, the float64 of the formula as written has too few digits itself
    assert 1000 < large.sum() < X.size
    np.testing.assert_allclose(transform.apply(tf.constant(X))[large], h(X[large]), rtol=5e-7)
    # Near zero by the series of the square root.
    small = X[~large].astype(np.float64)
    a = np.abs(small)
    series = small * (1 / 2 - a / 8 + a**2 / 16 - 5 * a**3 / 128 + EPSILON)
    np.testing.assert_allclose(transform.apply(tf.constant(X))[~large], series, rtol=5e-7)


def test_inverse_is_the_formula(transform):
    large = np.abs(X) > 1e-3
    y = X[large].astype(np.float64)
    u = (np.sqrt(1 + 4 * EPSILON * (np.abs(y) + 1 + EPSILON)) - 1) / (2 * EPSILON)
    np.testing.assert_allclose(transform.inverse(tf.constant(X))[large], np.sign(y) * (u**2 - 1), rtol=1e-6)


def test_round_trips_keep_all_but_the_last_digits(transform):
    np.testing.assert_allclose(transform.inverse(transform.apply(tf.constant(X))), X, rtol=1e-6)
    np.testing.assert_allclose(transform.apply(transform.inverse(tf.constant(X))), X, rtol=1e-6)


def test_odd_increasing_and_zero_at_zero(transform):
    for function in transform:
        y = function(tf.constant(X)).numpy()
        np.testing.assert_array_equal(y, -y[::-1])
        assert np.all(np.diff(y) > 0)
        assert function(tf.constant(0.0)) == 0.0


def test_derivatives_are_the_closed_forms(transform):
    x = np.append(X, np.float32([0.0, -0.0]))
    slope = 0.5 / np.sqrt(np.abs(x.astype(np.float64)) + 1) + EPSILON
    np.testing.assert_allclose(gradient(transform.apply, x), slope, rtol=1e-6)
    y = h(x)
    np.testing.assert_allclose(gradient(transform.inverse, y), 1 / slope, rtol=2e-6)


def test_known_values():
    np.testing.assert_allclose(SIGNED_HYPERBOLIC.apply([3.0, -8.0, 99.0]), [1.003, -2.008, 9.099], rtol=1e-6)
    np.testing.assert_allclose(SIGNED_HYPERBOLIC.inverse([1.003, -2.008, 9.099]), [3.0, -8.0, 99.0], rtol=1e-6)


def test_identity_changes_nothing():
    for function in IDENTITY:
        np.testing.assert_array_equal(function(X), X)


@pytest.mark.parametrize("pair", [IDENTITY, SIGNED_HYPERBOLIC])
def test_results_are_float32_and_keep_the_shape(pair):
    for x in (np.zeros(3), np.zeros((2, 3, 4), np.float16), tf.zeros([], tf.bfloat16)):
        for function in pair:
            assert function(x).dtype == tf.float32
            assert function(x).shape == x.shape
