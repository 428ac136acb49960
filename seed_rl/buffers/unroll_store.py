"""Unrolls as device variables, written a step at a time by the act step and read whole by the learner."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from seed_rl.types import Unroll


class StepWrites(NamedTuple):
    """Where the B steps of one inference batch go; `num_slots` (the spare slot) means nowhere.

    A step belongs to one unroll, or to D of them where consecutive unrolls overlap.
    """

    slots: tf.Tensor
    """int32 [D, B]"""
    positions: tf.Tensor
    """int32 [D, B]"""
    opened: tf.Tensor
    """int32 [B]: the slot that this step is the first one of; its initial state is the state given with the step."""


def _variables(specs: Any, leading: tuple[int, ...]) -> Any:
    def variable(spec: tf.TensorSpec) -> tf.Variable:
        return tf.Variable(tf.zeros(leading + tuple(spec.shape), spec.dtype), trainable=False)

    return tf.nest.map_structure(variable, specs)


class UnrollStore:
    """`num_slots` unrolls of `length` steps in device memory, each tensor stored once and updated in place.

    Who holds a slot is decided elsewhere (`SlotPool`, and the queue or replay that finished unrolls go to): finishing
    an unroll moves its slot's number, not its data. One more slot than asked for takes the writes that go nowhere.
    """

    def __init__(self, step_spec: Unroll, length: int, num_slots: int, device: str = ""):
        """Allocates the store.

        Args:
          step_spec: `tf.TensorSpec`s of one step of one environment, without any batch or time axis;
            `initial_state` is that of one environment.
          length: L, steps per unroll.
          num_slots: unrolls it holds.
          device: where, as TensorFlow names it; the default device if empty.
        """
        self.length = length
        self.num_slots = num_slots
        self.device = device
        with tf.device(device):
            self._states = _variables(step_spec.initial_state, (num_slots + 1,))
            self._steps = _variables(step_spec._replace(initial_state=()), (num_slots + 1, length))

    @property
    def nbytes(self) -> int:
        """Bytes of device memory, the spare slot included."""
        return sum(v.dtype.size * v.shape.num_elements() for v in tf.nest.flatten((self._states, self._steps)))

    @property
    def nbytes_each(self) -> int:
        """Bytes of one slot."""
        return self.nbytes // (self.num_slots + 1)

    @property
    def num_leaves(self) -> int:
        """Tensors that an unroll consists of."""
        return len(self._leaves())

    def _leaves(self) -> list[tf.Variable]:
        return tf.nest.flatten((self._states, self._steps))

    def get_rows(self, slots: np.ndarray) -> list[np.ndarray]:
        """The unrolls in `slots` int32 [n] as they are stored: an array [n, ...] for each tensor, in a fixed order."""
        return [tf.gather(variable, slots).numpy() for variable in self._leaves()]

    def set_rows(self, slots: np.ndarray, rows: Sequence[np.ndarray]) -> None:
        """Puts back what `get_rows` gave.

        Raises:
          ValueError: an array has another shape or dtype.
        """
        leaves = self._leaves()
        for variable, array in zip(leaves, rows, strict=True):
            expected = (len(slots), *variable.shape[1:])
            if array.shape != expected or array.dtype != variable.dtype.as_numpy_dtype:
                wanted = f"{variable.dtype.name}{list(expected)}"
                raise ValueError(f"{array.dtype}{list(array.shape)} does not go where {wanted} belongs")
        for variable, array in zip(leaves, rows, strict=True):
            variable.scatter_nd_update(slots[:, None], array)

    def write(self, writes: StepWrites, step: Unroll) -> None:
        """Stores one step of each of B environments. To be traced inside the compiled act step.

        Args:
          writes: destinations.
          step: fields [B, ...], without a time axis; `initial_state` is the state before this step.
        """
        depth = writes.slots.shape[0]
        indices = tf.reshape(tf.stack([writes.slots, writes.positions], axis=-1), [-1, 2])

        def append(variable: tf.Variable, value: tf.Tensor) -> None:
            variable.scatter_nd_update(indices, tf.concat([value] * depth, axis=0))

        def begin(variable: tf.Variable, value: tf.Tensor) -> None:
            variable.scatter_nd_update(writes.opened[:, None], value)

        tf.nest.map_structure(append, self._steps, step._replace(initial_state=()))
        tf.nest.map_structure(begin, self._states, step.initial_state)

    @tf.function
    def read(self, slots: tf.Tensor) -> Unroll:
        """The unrolls in `slots` int32 [B], copied: time-major [L, B, ...], `initial_state` [B, ...]."""
        with tf.device(self.device):
            unroll = tf.nest.map_structure(lambda v: _time_major(v, slots), self._steps)
            return unroll._replace(initial_state=tf.nest.map_structure(lambda v: tf.gather(v, slots), self._states))

    @tf.function
    def read_outcome(self, slots: tf.Tensor) -> Unroll:
        """As `read`, without what is large: `initial_state` and `env_output.observation` are ()."""
        with tf.device(self.device):
            light = self._steps._replace(env_output=self._steps.env_output._replace(observation=()))
            return tf.nest.map_structure(lambda v: _time_major(v, slots), light)


def _time_major(variable: tf.Variable, slots: tf.Tensor) -> tf.Tensor:
    rows = tf.gather(variable, slots)
    return tf.transpose(rows, [1, 0, *range(2, rows.shape.rank)])
