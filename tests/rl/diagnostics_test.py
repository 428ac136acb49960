"""Explained variance, and what bounds take from importance weights."""

import numpy as np
import pytest
import tensorflow as tf

from seed_rl.rl import diagnostics
from seed_rl.rl.distributions import Categorical, MultiCategorical, SquashedNormal

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


def test_steps_without_a_target_explain_nothing():
    weights, values = np.array([[1.0, 1.0], [1.0, 0.0]]), np.array([[1.0, 1.0], [1.0, 6.0]])
    # The targets 1, 2, 3 have a variance of 2/3; so have their errors.
    assert float(diagnostics.explained_variance(values, TARGETS, weights)) == pytest.approx(0.0, abs=1e-6)


def test_targets_that_do_not_vary_leave_nothing_to_explain():
    assert float(diagnostics.explained_variance(TARGETS, *np.ones((2, 2, 2)))) == 0.0


def test_clipping_takes_the_mass_of_the_policy_above_the_bound():
    pi, mu = np.array([0.7, 0.2, 0.1]), np.array([0.4, 0.4, 0.2])
    # Each action as often as the behaviour policy takes it.
    log_rhos = np.log(np.repeat(pi / mu, [4, 4, 2]))[:, None]
    assert float(diagnostics.clipped_mass(log_rhos, 1.0)) == pytest.approx(0.5 * np.abs(pi - mu).sum())
    assert float(diagnostics.clipped_mass(log_rhos, 1.5)) == pytest.approx(0.7 - 1.5 * 0.4)
    assert float(diagnostics.clipped_mass(log_rhos, 9.0)) == pytest.approx(0.0, abs=1e-6)
    assert [float(diagnostics.clipped_share(log_rhos, clip)) for clip in (0.4, 1.0, 2.0)] == pytest.approx([1, 0.4, 0])


def test_the_largest_entropy_is_that_of_equally_likely_actions():
    for distribution in (Categorical(5), MultiCategorical((2, 3))):
        uniform = distribution.entropy(tf.zeros([distribution.num_parameters]))
        assert float(uniform) == pytest.approx(float(distribution.max_entropy(tf.zeros([5]))))
    assert SquashedNormal((0.0,), (1.0,)).max_entropy(tf.zeros([2])) is None
