"""Unrolls in device variables, written step by step by the act step and read as a whole by the learner."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from seed_rl.buffers.rows import Rows
from seed_rl.buffers.slots import SlotPool, UnrollQueue
from seed_rl.system import devices
from seed_rl.system.devices import HOST
from seed_rl.types import Unroll


class StepWrites(NamedTuple):
    """Where to store the B steps of an inference batch, NumPy arrays or tensors.

    A step belongs to one unroll, or to D of them where consecutive unrolls overlap. Steps that are not stored go to the
    spare slot, number `num_slots`.
    """

    slots: Any
    """int32 [D, B]"""
    positions: Any
    """int32 [D, B]"""
    opened: Any
    """int32 [B]: the slot whose unroll begins with this step, to which the state before the step is written."""


class UnrollStore:
    """`num_slots` unrolls of `length` steps in device memory; every tensor is stored once and updated in place.

    Others (`SlotPool`, the queue, a sampler) keep track of who owns a slot: a finished unroll is passed on by its slot
    number, not copied. An additional spare slot receives all writes that are to be discarded.
    """

    def __init__(self, step_spec: Unroll, length: int, num_slots: int, device: str = ""):
        """Allocate the store for steps of `Agent.step_spec`; an empty name stands for TensorFlow's default device."""
        self.length = length
        self.num_slots = num_slots
        self.device = device
        with tf.device(device):
            self._states = Rows(step_spec.initial_state, [num_slots + 1])
            self._steps = Rows(step_spec._replace(initial_state=()), [num_slots + 1, length])
        # Compiled on an accelerator, where TensorFlow lacks scatter kernels for some dtypes.
        is_compiled = devices.has_accelerator() and device != HOST
        self._put = tf.function(self._scatter, jit_compile=is_compiled, autograph=False)

    @property
    def variables(self) -> list[tf.Variable]:
        """All variables of the store."""
        return [*self._states.variables, *self._steps.variables]

    @property
    def nbytes(self) -> int:
        """Bytes of device memory, the spare slot included."""
        return self._states.nbytes + self._steps.nbytes

    @property
    def nbytes_each(self) -> int:
        """Bytes of one slot."""
        return self.nbytes // (self.num_slots + 1)

    def write(self, writes: StepWrites, step: Unroll) -> None:
        """Store a step of each of B environments, and the state before it. Called within the compiled act step."""
        depth = writes.slots.shape[0]
        indices = tf.reshape(tf.stack([writes.slots, writes.positions], axis=-1), [-1, 2])
        repeated = tf.nest.map_structure(lambda t: tf.concat([t] * depth, axis=0), step._replace(initial_state=()))
        self._steps.scatter(indices, repeated)
        self._states.scatter(writes.opened[:, None], step.initial_state)

    @tf.function(autograph=False)
    def read(self, slots: tf.Tensor) -> Unroll:
        """Copy the unrolls in `slots`, int32 [B]: time-major [L, B, ...], `initial_state` [B, ...]."""
        with tf.device(self.device):
            unroll = tf.nest.map_structure(_time_major, self._steps.gather(slots))
            return unroll._replace(initial_state=self._states.gather(slots))

    def get_rows(self, slots: np.ndarray) -> list[np.ndarray]:
        """The unrolls in `slots`, int32 [n], as one array [n, ...] per tensor, in a fixed order."""
        nest = (self._states.gather(slots), self._steps.gather(slots))
        return [tensor.numpy() for tensor in tf.nest.flatten(nest)]

    def set_rows(self, slots: np.ndarray, rows: Sequence[np.ndarray]) -> None:
        """Write back the arrays of `get_rows`; raise ValueError if their number, shape or dtype is wrong."""
        nest = (self._states.specs, self._steps.specs)
        leading = [()] * len(self._states.variables) + [(self.length,)] * len(self._steps.variables)
        specs = tf.nest.flatten(nest)
        if len(rows) != len(specs):
            raise ValueError(f"expected {len(specs)} tensors, got {len(rows)}")
        for spec, axes, array in zip(specs, leading, rows, strict=True):
            expected = [len(slots), *axes, *spec.shape]
            if list(array.shape) != expected or array.dtype != spec.dtype.as_numpy_dtype:
                raise ValueError(f"expected {spec.dtype.name}{expected}, got {array.dtype}{list(array.shape)}")
        with tf.device(self.device):
            tensors = tf.nest.map_structure(tf.constant, tf.nest.pack_sequence_as(nest, rows))
            self._put(tf.constant(slots, tf.int64), *tensors)

    def _scatter(self, slots: tf.Tensor, states: Any, steps: Any) -> None:
        self._states.scatter(slots[:, None], states)
        self._steps.scatter(slots[:, None], steps)


class Unrolls(NamedTuple):
    """The unrolls of an inference device, which fills slots of the pool and queues them; the learner returns them."""

    store: UnrollStore
    pool: SlotPool
    queue: UnrollQueue


def _time_major(rows: tf.Tensor) -> tf.Tensor:
    return tf.transpose(rows, [1, 0, *range(2, rows.shape.rank)])
