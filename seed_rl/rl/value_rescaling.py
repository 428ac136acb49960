"""Transforms that compress the range of action values, so that one network can handle games of any reward scale.

They apply elementwise to tensors of any shape and return float32.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import tensorflow as tf

EPSILON = 1e-3
"""The slope that keeps the inverse of the signed hyperbolic transform Lipschitz continuous."""


class ValueTransform(NamedTuple):
    """An increasing function and its inverse."""

    apply: Callable[[Any], tf.Tensor]
    """Maps returns in units of reward to network outputs."""
    inverse: Callable[[Any], tf.Tensor]
    """Maps network outputs to returns in units of reward."""


def _identity(x: Any) -> tf.Tensor:
    return tf.cast(x, tf.float32)


def _signed_hyperbolic(x: Any) -> tf.Tensor:
    """h(x) = sign(x) (sqrt(|x| + 1) - 1) + epsilon x.

    Computed with sqrt(|x| + 1) - 1 = |x| / (sqrt(|x| + 1) + 1): the difference would lose all digits of a small x, and
    without sign(x) the gradient at zero is correct.
    """
    x = tf.cast(x, tf.float32)
    return x * (1.0 / (tf.sqrt(tf.abs(x) + 1.0) + 1.0) + EPSILON)


def _signed_parabolic(x: Any) -> tf.Tensor:
    """sign(x) (u^2 - 1) with u = (sqrt(1 + 4 epsilon (|x| + 1 + epsilon)) - 1) / (2 epsilon): the inverse of h.

    Computed as u^2 - 1 = (u - 1) (u + 1). With c = 1 + 2 epsilon the radicand is c^2 + 4 epsilon |x|, and so
    u - 1 = 2 |x| / (sqrt(c^2 + 4 epsilon |x|) + c): there is no cancellation.
    """
    x = tf.cast(x, tf.float32)
    c = 1.0 + 2.0 * EPSILON
    slope = 2.0 / (tf.sqrt(c * c + 4.0 * EPSILON * tf.abs(x)) + c)  # (u - 1) / |x|
    return x * slope * (slope * tf.abs(x) + 2.0)


IDENTITY = ValueTransform(_identity, _identity)
"""Values in units of reward."""

SIGNED_HYPERBOLIC = ValueTransform(_signed_hyperbolic, _signed_parabolic)
"""Roughly a square root for large values, half the value for small ones (arXiv:1805.11593, proposition A.2)."""
