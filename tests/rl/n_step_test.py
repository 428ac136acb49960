"""n-step returns against the sum they are defined by."""

import numpy as np
import pytest

from seed_rl.rl.n_step import n_step_returns


def random_inputs(length=7, batch=5):
    """Arguments by name, with episodes ending in mid-sequence, some of them in a last state."""
    rng = np.random.default_rng(0)
    last, terminated = rng.random((2, length, batch)) < 0.2
    return {
        "r_t": rng.standard_normal((length, batch)),
        "discount_t": np.where(last | terminated, 0.0, rng.uniform(0.8, 1.0, (length, batch))),
        "v_t": rng.standard_normal((length, batch)),
        "last_t": last,
    }


def ground_truth(r_t, discount_t, v_t, last_t, n):
    """The sum and the products of the definition, written out; float64."""
    length, batch = r_t.shape
    returns = np.zeros((length, batch))
    for t, b in np.ndindex(length, batch):
        m = min(n, length - t)
        m = next((k for k in range(1, m) if last_t[t + k, b]), m)
        for k in range(m):
            returns[t, b] += np.prod(discount_t[t : t + k, b]) * r_t[t + k, b]
        returns[t, b] += np.prod(discount_t[t : t + m, b]) * v_t[t + m - 1, b]
    return returns


@pytest.mark.parametrize("n", [1, 3, 7, 50])
def test_equals_the_formula_with_episodes_ending_in_mid_sequence(n):
    inputs = random_inputs()
    defined = ~inputs["last_t"]
    assert 0 < np.sum(inputs["last_t"][1:-1]) < np.sum(inputs["discount_t"][1:-1] == 0)
    returns = n_step_returns(**inputs, n=n).numpy()
    np.testing.assert_allclose(returns[defined], ground_truth(**inputs, n=n)[defined], rtol=1e-5, atol=1e-5)
