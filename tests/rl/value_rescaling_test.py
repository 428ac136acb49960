"""The value transform against its formula in float64, its round trips and its gradients."""

import numpy as np

from seed_rl.rl.value_rescaling import SIGNED_HYPERBOLIC
from tests.support.gradients import gradient

EPSILON = 1e-3
MAGNITUDES = np.logspace(-6, 6, 1201)
X = np.concatenate([-MAGNITUDES[::-1], [0.0], MAGNITUDES]).astype(np.float32)


def h(x):
    """The definition in float64; near zero, where that has too few digits, by the series of the square root."""
    x = np.asarray(x, np.float64)
    a = np.abs(x)
    series = x * (1 / 2 - a / 8 + a**2 / 16 - 5 * a**3 / 128)
    return np.where(a > 1e-3, np.sign(x) * (np.sqrt(a + 1) - 1), series) + EPSILON * x


def test_apply_is_the_formula_and_a_round_trip_keeps_all_but_the_last_digits():
    np.testing.assert_allclose(SIGNED_HYPERBOLIC.apply(X), h(X), rtol=5e-7)
    np.testing.assert_allclose(SIGNED_HYPERBOLIC.inverse(SIGNED_HYPERBOLIC.apply(X)), X, rtol=1e-6)
    np.testing.assert_allclose(SIGNED_HYPERBOLIC.apply(SIGNED_HYPERBOLIC.inverse(X)), X, rtol=1e-6)


def test_derivatives_are_the_closed_forms():
    slope = 0.5 / np.sqrt(np.abs(X.astype(np.float64)) + 1) + EPSILON
    np.testing.assert_allclose(gradient(SIGNED_HYPERBOLIC.apply, X), slope, rtol=1e-6)
    np.testing.assert_allclose(gradient(SIGNED_HYPERBOLIC.inverse, h(X)), 1 / slope, rtol=2e-6)
