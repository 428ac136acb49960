"""Random numbers that are equal on all devices, with and without XLA: integers drawn from the Philox generator.

By default TensorFlow picks different algorithms on different devices, and XLA converts the same bits to different
floats. Seeds are int32 [2].
"""

from typing import Any

import tensorflow as tf

_ALGORITHM = "philox"
_STEPS = 2**23
"""Number of distinct uniform values, the midpoints of as many intervals: each is exact in float32."""


def split(seed: Any, count: int) -> list[tf.Tensor]:
    """Derive `count` independent seeds."""
    return tf.unstack(tf.random.split(seed, count, alg=_ALGORITHM))


def integers(shape: Any, seed: Any, below: int) -> tf.Tensor:
    """Uniform integers in 0 .. `below` - 1, int32 of `shape`."""
    return tf.random.stateless_uniform(shape, seed, maxval=below, dtype=tf.int32, alg=_ALGORITHM)


def uniform(shape: Any, seed: Any) -> tf.Tensor:
    """Uniform numbers in (0, 1), odd multiples of 2^-24, float32 of `shape`."""
    return (tf.cast(integers(shape, seed, _STEPS), tf.float32) + 0.5) / _STEPS


def normal(shape: Any, seed: Any) -> tf.Tensor:
    """Standard normal numbers within 5.3 deviations, float32 of `shape`: the quantiles of uniform numbers.

    They agree across devices up to the rounding of the quantile function.
    """
    return tf.math.ndtri(uniform(shape, seed))
