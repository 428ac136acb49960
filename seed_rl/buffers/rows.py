"""Device variables with a row per environment or per slot, for tensors of any dtype and shape.

Only this module knows how a row is stored. TensorFlow keeps int32 variables in the host's memory even on a GPU, where
compiled programs can't use them: they are stored as uint32, the same bits. A TPU's compiler would put the axis of the
rows last, and could not write one row without changing the layout of all. Rows of two or more axes are therefore
stored flat, in pieces of 128 elements (the lanes of a TPU's vector), the last one padded. Compilers for CPUs, GPUs and
TPUs update these in place.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

_LANES = 128


class Rows:
    """A nest of variables [*leading, ...] for tensors of a nest of specs, all zeros at first."""

    def __init__(self, specs: Any, leading: Sequence[int]):
        """
        Args:
          specs: nest of `tf.TensorSpec` of a row.
          leading: axes of the rows.
        """

        def variable(spec: tf.TensorSpec) -> tf.Variable:
            held = held_as(spec)
            return tf.Variable(tf.zeros([*leading, *held.shape], held.dtype), trainable=False)

        self.specs = specs
        self._variables = tf.nest.map_structure(variable, specs)

    @property
    def variables(self) -> list[tf.Variable]:
        """Of all tensors, in the order of the nest."""
        return tf.nest.flatten(self._variables)

    @property
    def nbytes(self) -> int:
        """Of all variables."""
        return sum(map(nbytes, self.variables))

    def gather(self, indices: Any, part: Any = None) -> Any:
        """The rows int [n] of the first axis, copied: nest of [n, ...].

        Args:
          indices: int [n].
          part: a function that keeps some tensors of the nest; None: all.
        """
        keep = part or (lambda nest: nest)

        def rows(spec: tf.TensorSpec, variable: tf.Variable) -> tf.Tensor:
            return _unheld(tf.gather(variable, indices), spec)

        return tf.nest.map_structure(rows, keep(self.specs), keep(self._variables))

    def scatter(self, indices: Any, values: Any) -> None:
        """Writes rows in place.

        Args:
          indices: int [n, axes], of the first `axes` leading axes.
          values: nest of [n, ...].
        """

        def write(spec: tf.TensorSpec, variable: tf.Variable, value: Any) -> None:
            variable.scatter_nd_update(indices, _held(value, spec))

        tf.nest.map_structure(write, self.specs, self._variables, values)


def held_as(spec: tf.TensorSpec) -> tf.TensorSpec:
    """How rows of a spec are held."""
    dtype = tf.uint32 if spec.dtype == tf.int32 else spec.dtype
    if spec.shape.rank < 2:
        return tf.TensorSpec(spec.shape, dtype)
    return tf.TensorSpec([math.ceil(spec.shape.num_elements() / _LANES), _LANES], dtype)


def nbytes(tensor: Any) -> int:
    """Bytes of a tensor, a variable, or a tensor of a spec."""
    return tensor.dtype.size * tensor.shape.num_elements()


def _held(values: Any, spec: tf.TensorSpec) -> tf.Tensor:
    """Values [n, ..., *spec.shape] as they are held."""
    held = held_as(spec)
    values = _as(tf.convert_to_tensor(values), held.dtype)
    if spec.shape.rank < 2:
        return values
    leading = _leading(values, spec.shape.rank)
    missing = held.shape.num_elements() - spec.shape.num_elements()
    flat = tf.reshape(values, [*leading, spec.shape.num_elements()])
    return tf.reshape(tf.pad(flat, [*[[0, 0]] * len(leading), [0, missing]]), [*leading, *held.shape])


def _unheld(held: tf.Tensor, spec: tf.TensorSpec) -> tf.Tensor:
    """Values [n, ..., *spec.shape] of what is held."""
    if spec.shape.rank < 2:
        return _as(held, spec.dtype)
    leading = _leading(held, 2)
    flat = tf.reshape(held, [*leading, held_as(spec).shape.num_elements()])
    return _as(tf.reshape(flat[..., : spec.shape.num_elements()], [*leading, *spec.shape]), spec.dtype)


def _leading(values: tf.Tensor, rank: int) -> list[int]:
    """The axes before the last `rank`, of which the first may be unknown."""
    return [-1, *values.shape[1 : values.shape.rank - rank]]


def _as(value: tf.Tensor, dtype: tf.DType) -> tf.Tensor:
    return value if value.dtype == dtype else tf.bitcast(value, dtype)
