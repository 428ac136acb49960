"""PPO's clipped loss of the policy, the squared error of values, and weighted means, in float32.

Shapes: T steps, B sequences. Index t of every argument refers to the state x_t and the action a_t taken in it.
"""

from typing import Any

import tensorflow as tf

from seed_rl.rl import checks


def clipped_ratio_loss(log_ratios: Any, advantages: Any, epsilon: float) -> tf.Tensor:
    """-mean(min(rho_t A_t, clip(rho_t, 1 - epsilon, 1 + epsilon) A_t)), the surrogate of PPO (arXiv:1707.06347).

    Args:
      log_ratios: float [T, B]: log rho_t = log pi(a_t) - log mu(a_t), where mu is the policy that acted.
      advantages: float [T, B]: A_t; no gradient flows through them.
      epsilon: how far a ratio may move away from 1 before the objective stops improving.
    """
    log_ratios, advantages = checks.float_arrays(2, log_ratios=log_ratios, advantages=advantages)
    advantages = tf.stop_gradient(advantages)
    ratios = tf.exp(log_ratios)
    clipped = tf.clip_by_value(ratios, 1.0 - epsilon, 1.0 + epsilon)
    return -tf.reduce_mean(tf.minimum(ratios * advantages, clipped * advantages))


def mean(x: Any, weights: Any) -> tf.Tensor:
    """sum(w x) / sum(w) for weights of the shape of x, not negative: float32 scalar, 0 if all weights are zero."""
    x, weights = tf.cast(x, tf.float32), tf.cast(weights, tf.float32)
    return tf.math.divide_no_nan(tf.reduce_sum(weights * x), tf.reduce_sum(weights))


def standardise(x: Any, weights: Any) -> tf.Tensor:
    """`x` standardised to a weighted mean of 0 and deviation of 1, zero where the weight is; float32. See `mean`."""
    deviations = weights * (tf.cast(x, tf.float32) - mean(x, weights))
    rounding = 1e-6 * mean(tf.abs(x), weights)
    return tf.math.divide_no_nan(deviations, tf.sqrt(mean(tf.square(deviations), weights)) + rounding)


def baseline_loss(values: Any, targets: Any) -> tf.Tensor:
    """mean((target_t - V(x_t))^2) / 2 of values and targets, float [T, B]; no gradient flows through the targets."""
    values, targets = checks.float_arrays(2, values=values, targets=targets)
    return 0.5 * tf.reduce_mean(tf.square(tf.stop_gradient(targets) - values))
