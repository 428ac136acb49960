"""n-step returns against the sum they are defined by, and the estimators that they reduce to."""

import numpy as np
import pytest

from seed_rl.rl.n_step import n_step_returns
from seed_rl.rl.vtrace import vtrace

FIELDS = ("r_t", "discount_t", "v_t")


def random_inputs(length=7, batch=5, seed=0):
    """Arguments by name, with an episode ending at about one step in five."""
    rng = np.random.default_rng(seed)
    discount = np.where(rng.random((length, batch)) < 0.2, 0.0, rng.uniform(0.8, 1.0, (length, batch)))
    return {
        "r_t": rng.standard_normal((length, batch)),
        "discount_t": discount,
        "v_t": rng.standard_normal((length, batch)),
    }


def ground_truth(r_t, discount_t, v_t, n):
    """The sum and the products of the definition, written out; float64."""
    length, batch = r_t.shape
    returns = np.zeros((length, batch))
    for t in range(length):
        m = min(n, length - t)
        for b in range(batch):
            for k in range(m):
                returns[t, b] += np.prod(discount_t[t : t + k, b]) * r_t[t + k, b]
            returns[t, b] += np.prod(discount_t[t : t + m, b]) * v_t[t + m - 1, b]
    return returns


@pytest.mark.parametrize("n", [1, 2, 3, 5, 6, 7, 8, 50])
def test_equals_the_formula_with_episodes_ending_in_mid_sequence(n):
    inputs = random_inputs()
    assert 0 < np.sum(inputs["discount_t"][1:-1] == 0) < inputs["discount_t"][1:-1].size
    np.testing.assert_allclose(n_step_returns(**inputs, n=n), ground_truth(**inputs, n=n), rtol=1e-5, atol=1e-5)


def test_by_hand():
    # Rewards 1, 2, 4; the discount is one half; the second action ends an episode.
    inputs = {"r_t": [[1.0], [2.0], [4.0]], "discount_t": [[0.5], [0.0], [0.5]], "v_t": [[10.0], [20.0], [40.0]]}
    np.testing.assert_array_equal(n_step_returns(**inputs, n=1)[:, 0], [1 + 5, 2, 4 + 20])
    np.testing.assert_array_equal(n_step_returns(**inputs, n=2)[:, 0], [1 + 1, 2, 4 + 20])


@pytest.mark.parametrize("n", [7, 8, 1000])
def test_as_many_steps_as_there_are_is_on_policy_v_trace(n):
    inputs = random_inputs()
    zeros = np.zeros((7, 5))  # log_rhos, and the values of the states before: on-policy with lambda one they cancel
    expected = vtrace(zeros, inputs["discount_t"], inputs["r_t"], zeros, inputs["v_t"][-1]).vs
    np.testing.assert_allclose(n_step_returns(**inputs, n=n), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("field", FIELDS)
def test_a_wrong_shape_is_named(field):
    inputs = random_inputs()
    for wrong in ((7,), (7, 5, 1), (7, 1)):
        if field == "r_t" and wrong == (7, 1):
            continue  # valid alone: then the other shapes are the wrong ones
        with pytest.raises(ValueError, match=f"{field} must have"):
            n_step_returns(**(inputs | {field: np.zeros(wrong)}), n=2)


def test_less_than_one_step_and_an_empty_sequence_are_refused():
    with pytest.raises(ValueError, match="n must be at least 1, got 0"):
        n_step_returns(**random_inputs(), n=0)
    with pytest.raises(ValueError, match="r_t must have a first axis of known length"):
        n_step_returns(*[np.zeros((0, 3))] * 3, n=1)
