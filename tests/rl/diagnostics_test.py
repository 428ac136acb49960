"""Explained variance worked out on paper. `agents/actor_critic_loss_test.py` has the formulas of all diagnostics."""

import numpy as np
import pytest

from seed_rl.rl import diagnostics

TARGETS = np.array([[1.0, 2.0], [3.0, 6.0]], np.float32)


@pytest.mark.parametrize(
    ("values", "share"),
    [
        (TARGETS, 1.0),
        (TARGETS + 5.0, 1.0),  # a constant error is not variance
        (np.full((2, 2), 9.0), 0.0),
        (0.5 * TARGETS, 0.75),
        (-9.0 * TARGETS, -1.0),  # -99 without the bound
    ],
)
def test_the_explained_variance_is_that_of_the_targets_without_the_errors(values, share):
    assert float(diagnostics.explained_variance(values, TARGETS, np.ones((2, 2)))) == pytest.approx(share, abs=1e-6)


def test_steps_without_a_target_explain_nothing_nor_do_targets_that_do_not_vary():
    weights, values = np.array([[1.0, 1.0], [1.0, 0.0]]), np.array([[1.0, 1.0], [1.0, 6.0]])
    # The targets 1, 2, 3 have a variance of 2/3; so have their errors.
    assert float(diagnostics.explained_variance(values, TARGETS, weights)) == pytest.approx(0.0, abs=1e-6)
    assert float(diagnostics.explained_variance(TARGETS, *np.ones((2, 2, 2)))) == 0.0
