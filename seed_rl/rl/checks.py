"""Checks of shapes at the start of functions in `rl` and `networks`; errors name the offending argument.

They look at static shapes only, so they cost nothing in a compiled graph and accept dimensions unknown during tracing.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf


def static_shape(tensor: Any) -> tf.TensorShape:
    """The static shape of a tensor, an array or a nest of numbers."""
    return tf.TensorShape(tensor.shape if hasattr(tensor, "shape") else np.shape(tensor))


def check_rank(name: str, tensor: Any, rank: int) -> None:
    """Raise ValueError unless `tensor` has `rank` axes."""
    shape = static_shape(tensor)
    if shape.rank not in (None, rank):
        raise ValueError(f"{name} must have rank {rank}, got shape {shape}")


def check_shape(name: str, tensor: Any, expected: Sequence[int | None]) -> None:
    """Raise ValueError unless `tensor` has the shape `expected`, where None matches any length."""
    shape = static_shape(tensor)
    if not shape.is_compatible_with(tf.TensorShape(expected)):
        raise ValueError(f"{name} must have shape {tf.TensorShape(expected)}, got {shape}")


def float_arrays(rank: int, **arrays: Any) -> list[tf.Tensor]:
    """The arrays as float32; ValueError if the first does not have `rank` axes, or another has a different shape and
    would be broadcast silently."""
    first, *others = arrays
    check_rank(first, arrays[first], rank)
    for name in others:
        check_shape(name, arrays[name], static_shape(arrays[first]))
    return [tf.cast(array, tf.float32) for array in arrays.values()]


def static_length(name: str, tensor: Any) -> int:
    """The length of the first axis of `tensor`; raises ValueError if it is zero or unknown during tracing."""
    length = static_shape(tensor)[0]
    if not length:
        raise ValueError(f"{name} must have a first axis of known length, at least 1, got shape {static_shape(tensor)}")
    return int(length)
