"""Random numbers that are the same on every device, compiled by XLA or not: Philox's bits as integers.

Left to choose, TensorFlow takes other algorithms on other devices, and XLA makes floats of the same bits in its own
way. Seeds are int32 [2].
"""

from typing import Any

import tensorflow as tf

_ALGORITHM = "philox"
_STEPS = 2**23
"""Of uniform numbers: the middle of each is exact in float32."""


def split(seed: Any, count: int) -> list[tf.Tensor]:
    """`count` independent seeds."""
    return tf.unstack(tf.random.split(seed, count, alg=_ALGORITHM))


def integers(shape: Any, seed: Any, below: int) -> tf.Tensor:
    """Uniform int32 of `shape` in 0 .. `below` - 1."""
    return tf.random.stateless_uniform(shape, seed, maxval=below, dtype=tf.int32, alg=_ALGORITHM)


def uniform(shape: Any, seed: Any) -> tf.Tensor:
    """Uniform float32 of `shape`, odd multiples of 2^-24 in (0, 1)."""
    return (tf.cast(integers(shape, seed, _STEPS), tf.float32) + 0.5) / _STEPS


def normal(shape: Any, seed: Any) -> tf.Tensor:
    """Standard normal float32 of `shape`, within 5.3 deviations: the quantiles of uniform numbers.

    Equal on all devices up to the rounding of these quantiles.
    """
    return tf.math.ndtri(uniform(shape, seed))
