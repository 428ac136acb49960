"""Device variables with a row per environment or per slot, for tensors of any dtype.

TensorFlow keeps int32 variables in the host's memory even on a GPU, where a compiled program then can't use them. They
are held as uint32 here, the same bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf


class Rows:
    """A nest of variables [*leading, ...] for tensors of a nest of specs, all zeros at first."""

    def __init__(self, specs: Any, leading: Sequence[int]):
        """
        Args:
          specs: nest of `tf.TensorSpec` of a row.
          leading: axes of the rows.
        """

        def variable(spec: tf.TensorSpec) -> tf.Variable:
            return tf.Variable(tf.zeros([*leading, *spec.shape], _held_as(spec.dtype)), trainable=False)

        self.specs = specs
        self._variables = tf.nest.map_structure(variable, specs)

    @property
    def variables(self) -> list[tf.Variable]:
        """Of all tensors, in the order of the nest."""
        return tf.nest.flatten(self._variables)

    @property
    def nbytes(self) -> int:
        """Of all variables."""
        return sum(v.dtype.size * v.shape.num_elements() for v in self.variables)

    def gather(self, indices: Any, part: Any = None) -> Any:
        """The rows int [n] of the first axis, copied: nest of [n, ...].

        Args:
          indices: int [n].
          part: a function that keeps some tensors of the nest; None: all.
        """
        keep = part or (lambda nest: nest)

        def rows(spec: tf.TensorSpec, variable: tf.Variable) -> tf.Tensor:
            return _as(tf.gather(variable, indices), spec.dtype)

        return tf.nest.map_structure(rows, keep(self.specs), keep(self._variables))

    def scatter(self, indices: Any, values: Any) -> None:
        """Writes rows in place.

        Args:
          indices: int [n, axes], of the first `axes` leading axes.
          values: nest of [n, ...].
        """

        def write(variable: tf.Variable, value: Any) -> None:
            variable.scatter_nd_update(indices, _as(value, variable.dtype))

        tf.nest.map_structure(write, self._variables, values)


def _as(value: tf.Tensor, dtype: tf.DType) -> tf.Tensor:
    return value if value.dtype == dtype else tf.bitcast(value, dtype)


def _held_as(dtype: tf.DType) -> tf.DType:
    return tf.uint32 if dtype == tf.int32 else dtype
