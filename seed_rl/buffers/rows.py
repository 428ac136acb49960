"""Device variables with one row per environment, slot or place, for tensors of any dtype and shape.

Only this module knows how rows are stored. TensorFlow keeps int32 variables in host memory even on a GPU, where
compiled programs can't use them, so they are stored as uint32 with the same bits. A TPU compiler would put the row axis
last, and could then not write one row without changing the layout of all of them. Rows with two or more axes are
therefore flattened and padded to whole pieces of 128 elements (the lanes of a TPU vector register), which compilers for
CPUs, GPUs and TPUs update in place.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from seed_rl.foreign import kind_of
from seed_rl.system import devices
from seed_rl.system.devices import HOST

_LANES = 128


class Rows:
    """A nest of zero-initialised variables [count, ...], one for each `tf.TensorSpec` in a nest `specs`."""

    def __init__(self, specs: Any, count: int):
        def variable(spec: tf.TensorSpec) -> tf.Variable:
            held = held_as(spec)
            return tf.Variable(tf.zeros([count, *held.shape], held.dtype), trainable=False)

        self.specs = specs
        self._variables = tf.nest.map_structure(variable, specs)
        self.variables: list[tf.Variable] = tf.nest.flatten(self._variables)
        """The variables of all tensors, in the order of the nest."""
        # Compiled on an accelerator, where TensorFlow lacks scatter kernels for some dtypes.
        self._device = self.variables[0].device if self.variables else HOST
        is_compiled = devices.has_accelerator() and not self._device.endswith(HOST)
        self._put = tf.function(self.scatter, jit_compile=is_compiled, autograph=False)

    @property
    def nbytes_each(self) -> int:
        """Bytes of one row of all variables."""
        return sum(nbytes(variable) // variable.shape[0] for variable in self.variables)

    def get(self, indices: np.ndarray) -> list[np.ndarray]:
        """Return the rows at `indices`, int32 [n], as one array [n, ...] per tensor, in the order of the nest."""
        return [tensor.numpy() for tensor in tf.nest.flatten(self.gather(indices))]

    def set(self, indices: np.ndarray, arrays: Sequence[np.ndarray]) -> None:
        """Write back the arrays of `get`; raise ValueError if their number, shape or dtype is wrong."""
        specs = tf.nest.flatten(self.specs)
        if len(arrays) != len(specs):
            raise ValueError(f"expected {len(specs)} tensors, got {len(arrays)}")
        for spec, array in zip(specs, arrays, strict=True):
            expected = [len(indices), *spec.shape]
            if list(array.shape) != expected or array.dtype != spec.dtype.as_numpy_dtype:
                raise ValueError(f"expected {spec.dtype.name}{expected}, got {kind_of(array)}")
        with tf.device(self._device):
            values = tf.nest.map_structure(tf.constant, tf.nest.pack_sequence_as(self.specs, list(arrays)))
            self._put(tf.constant(indices, tf.int64), values)

    def gather(self, indices: Any) -> Any:
        """Copy rows by their `indices`, int [...]: nest of [..., *shape]."""
        if "GPU" in self._device:  # TensorFlow's kernel computes addresses in the type of the indices
            indices = tf.cast(indices, tf.int64)
        return tf.nest.map_structure(lambda s, v: _unheld(tf.gather(v, indices), s), self.specs, self._variables)

    def scatter(self, indices: Any, values: Any) -> None:
        """Write rows, a nest of [n, ...], in place at `indices`, int [n]."""

        def write(spec: tf.TensorSpec, variable: tf.Variable, value: Any) -> None:
            variable.scatter_nd_update(indices[:, tf.newaxis], _held(value, spec))

        tf.nest.map_structure(write, self.specs, self._variables, values)


def held_as(spec: tf.TensorSpec) -> tf.TensorSpec:
    """The spec under which rows of `spec` are stored."""
    dtype = tf.uint32 if spec.dtype == tf.int32 else spec.dtype
    if spec.shape.rank < 2:
        return tf.TensorSpec(spec.shape, dtype)
    return tf.TensorSpec([math.ceil(spec.shape.num_elements() / _LANES), _LANES], dtype)


def nbytes(tensor: Any) -> int:
    """Bytes of a tensor, a variable, or a tensor with a given spec."""
    return tensor.dtype.size * tensor.shape.num_elements()


def _held(values: Any, spec: tf.TensorSpec) -> tf.Tensor:
    """Convert values [n, *spec.shape] to their stored form; raise ValueError for tensors of another dtype."""
    held = held_as(spec)
    values = _as(tf.convert_to_tensor(values, spec.dtype), held.dtype)
    if spec.shape.rank < 2:
        return values
    count = spec.shape.num_elements()
    padded = tf.pad(tf.reshape(values, [-1, count]), [[0, 0], [0, held.shape.num_elements() - count]])
    return tf.reshape(padded, [-1, *held.shape])


def _unheld(held: tf.Tensor, spec: tf.TensorSpec) -> tf.Tensor:
    """Convert the stored form back to values [n, ..., *spec.shape]."""
    if spec.shape.rank < 2:
        return _as(held, spec.dtype)
    leading = [-1, *held.shape[1:-2]]  # the first may be unknown
    flat = tf.reshape(held, [*leading, held_as(spec).shape.num_elements()])
    return _as(tf.reshape(flat[..., : spec.shape.num_elements()], [*leading, *spec.shape]), spec.dtype)


def _as(value: tf.Tensor, dtype: tf.DType) -> tf.Tensor:
    return value if value.dtype == dtype else tf.bitcast(value, dtype)
