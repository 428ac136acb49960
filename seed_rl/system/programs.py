"""Compiled functions that are called thousands of times a second."""

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf


class Program:
    """A function of nests of tensors or arrays, traced once for each combination of their shapes.

    A `tf.function` compares the full types of all arguments at each call, in Python, which takes longer than a small
    network does. Here the shapes decide: structure, dtypes and default device must be the same in all calls.
    """

    def __init__(self, function: Callable[..., Any], jit_compile: bool = False):
        self.function = tf.function(function, jit_compile=jit_compile, autograph=False)
        """The `tf.function`, which also takes values that are distributed over several devices."""
        self._traces: dict[tuple[Any, ...], Any] = {}

    def __call__(self, *arguments: Any) -> Any:
        """Call the function."""
        arguments = tf.nest.map_structure(_tensor, arguments)
        leaves = tf.nest.flatten(arguments)
        if not all(isinstance(leaf, tf.Tensor) for leaf in leaves):
            return self.function(*arguments)
        shapes = tuple(tuple(leaf.shape) for leaf in leaves)
        if shapes not in self._traces:
            self._traces[shapes] = self.function.get_concrete_function(*arguments)
        return self._traces[shapes](*arguments)


def _tensor(value: Any) -> Any:
    return tf.constant(value) if isinstance(value, np.ndarray) else value
