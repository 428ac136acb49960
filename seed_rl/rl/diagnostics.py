"""Diagnostic scalars for value estimates and importance weights.

Shapes: T steps, B sequences. `log_rhos`, float32 [T, B], are log pi(a_t) - log mu(a_t) for the target policy pi and the
behaviour policy mu. `weights`, float32 [T, B], are 1, or 0 for steps that are left out.
"""

from typing import Any

import tensorflow as tf

from seed_rl.rl import checks
from seed_rl.rl.losses import mean


def explained_variance(values: Any, targets: Any, weights: Any) -> tf.Tensor:
    """1 - Var(target_t - V(x_t)) / Var(target_t), float32 scalar.

    It is 1 if the values predict their targets exactly, 0 if a constant would do as well, and negative if they do
    worse. It is clipped at -1, so that a batch of nearly equal targets does not dominate an average over batches, and 0
    if all targets are equal. All arguments are float [T, B].
    """
    values, targets, weights = checks.float_arrays(2, values=values, targets=targets, weights=weights)
    variance, unexplained = (mean(tf.square(x - mean(x, weights)), weights) for x in (targets, targets - values))
    return tf.maximum(tf.math.divide_no_nan(variance - unexplained, variance), -1.0)


def divergence(log_rhos: Any, weights: Any) -> tf.Tensor:
    """mean(w_t (rho_t - 1 - log rho_t)), an estimate of KL(mu || pi), float32 scalar.

    Unlike the mean of -log rho_t, which has the same expectation, it is never negative and has a low variance where
    rho_t is near 1.
    """
    return tf.reduce_mean(weights * (tf.exp(log_rhos) - 1.0 - log_rhos))


def clip_fraction(log_ratios: Any, weights: Any, epsilon: float) -> tf.Tensor:
    """The fraction of ratios of PPO outside of 1 +- epsilon, float32 scalar; of those that `clipped_ratio_loss` has."""
    return tf.reduce_mean(weights * tf.cast(tf.abs(tf.exp(log_ratios) - 1.0) > epsilon, tf.float32))


def clipped_share(log_rhos: Any, weights: Any, clip: float) -> tf.Tensor:
    """The fraction of importance weights above `clip`, float32 scalar.

    With a bound of 1 it is close to one half as soon as the policies differ at all; see `clipped_mass`.
    """
    return tf.reduce_mean(weights * tf.cast(tf.exp(log_rhos) > clip, tf.float32))


def clipped_mass(log_rhos: Any, weights: Any) -> tf.Tensor:
    """mean(w_t (1 - min(1, rho_t))): the probability mass of the target policy that clipping at 1 removes, a scalar.

    Importance weights have a mean of 1 under the behaviour policy; clipping lowers it by the mass of pi that exceeds
    mu. That is the total variation distance between pi and mu: 0 if they are equal, 1 if they share no action.
    """
    return tf.reduce_mean(weights * (1.0 - tf.minimum(tf.exp(log_rhos), 1.0)))
