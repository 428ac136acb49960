"""Explained variance worked out on paper. `agents/actor_critic_loss_test.py` has the formulas of all diagnostics."""

import numpy as np
import pytest

from seed_rl.rl import diagnostics

TARGETS, ONES = np.array([[1.0, 2.0], [3.0, 6.0]]), np.ones((2, 2))


@pytest.mark.parametrize(
    ("values", "targets", "weights", "share"),
    [
        (TARGETS, TARGETS, ONES, 1.0),
        (TARGETS + 5.0, TARGETS, ONES, 1.0),  # a constant error is not variance
        (9.0 * ONES, TARGETS, ONES, 0.0),
        (0.5 * TARGETS, TARGETS, ONES, 0.75),
        (-9.0 * TARGETS, TARGETS, ONES, -1.0),  # -99 without the bound
        ([[1.0, 1.0], [1.0, 6.0]], TARGETS, [[1.0, 1.0], [1.0, 0.0]], 0.0),  # of 1, 2, 3 alone, and of their errors
        (TARGETS, ONES, ONES, 0.0),  # targets that do not vary
    ],
)
def test_the_explained_variance_is_that_of_the_targets_without_the_errors(values, targets, weights, share):
    assert float(diagnostics.explained_variance(values, targets, weights)) == pytest.approx(share, abs=1e-6)
