"""LSTM and GRU over unrolls in which episodes may end in mid-sequence.

Shapes: T steps, B sequences, F input features, U units. Weights are float32. Matrix products are computed in the
layer's compute dtype, everything else in float32, in particular the state.
"""

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import keras
import tensorflow as tf

from seed_rl.rl import checks


class LSTMState(NamedTuple):
    """The recurrent state of an LSTM."""

    h: Any
    """float32 [B, U]: the output of the last step."""
    c: Any
    """float32 [B, U]: the cell."""


class _Recurrent(keras.layers.Layer):
    """Weights W [F, gU], R [U, gU] and b [gU] of a recurrent layer with g gates, and the parts that need no loop."""

    gates: ClassVar[int]
    bias_initializer: ClassVar[Any] = "zeros"

    def __init__(self, units: int, dtype: str = "float32", name: str = "recurrent"):
        # Autocasting would round the state and the variables; `call` casts the operands of matrix products itself.
        super().__init__(dtype=dtype, name=name, autocast=False)
        self.units = units

    def build(self, inputs_shape: Sequence[int | None]) -> None:
        add = functools.partial(self.add_weight, autocast=False)
        columns = self.gates * self.units
        self.kernel = add((inputs_shape[-1], columns), "glorot_uniform", name="kernel")
        self.recurrent_kernel = add((self.units, columns), "orthogonal", name="recurrent_kernel")
        self.bias = add((columns,), self.bias_initializer, name="bias")

    def _project(self, inputs: Any, done: Any, state: Mapping[str, Any]) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """x_t W + b float32 [T, B, gU], 0 where the state is zeroed else 1 [T, B, 1], and R in the compute dtype."""
        checks.check_rank("inputs", inputs, 3)
        checks.check_shape("done", done, checks.static_shape(inputs)[:2])
        for name, part in state.items():
            checks.check_shape(name, part, [checks.static_shape(inputs)[1], self.units])
        checks.static_length("inputs", inputs)
        # One product for the inputs of all steps: only the recurrent product has to wait for the previous step.
        projected = tf.tensordot(tf.cast(inputs, self.compute_dtype), tf.cast(self.kernel, self.compute_dtype), 1)
        keep = 1.0 - tf.cast(done, tf.float32)[..., tf.newaxis]
        return tf.cast(projected, tf.float32) + self.bias, keep, tf.cast(self.recurrent_kernel, self.compute_dtype)


class ResetLSTM(_Recurrent):
    """An LSTM whose state is zeroed before every step that begins an episode.

        i_t, f_t, o_t = sigmoid(x_t W + h_{t-1} R + b),  g_t = tanh(x_t W + h_{t-1} R + b)
        c_t = f_t c_{t-1} + i_t g_t,  h_t = o_t tanh(c_t)

    W, R and b have a separate part for each of i, f, o and g, in that order. The forget gate's bias is initialised to
    1.
    """

    gates = 4

    def initial_state(self, batch_size: int) -> LSTMState:
        """The zero state, float32 [B, U]."""
        return LSTMState(h=tf.zeros([batch_size, self.units]), c=tf.zeros([batch_size, self.units]))

    def call(self, inputs: Any, done: Any, state: LSTMState) -> tuple[tf.Tensor, LSTMState]:
        """Unroll over T steps: return the outputs [T, B, U], in the compute dtype, and the state after step T - 1.

        Args:
          inputs: float [T, B, F].
          done: bool [T, B]: whether a step is the first of its episode, so that the state is zeroed before it.
          state: float32 [B, U]: the state before step 0.
        """
        projected, keep, recurrent_kernel = self._project(inputs, done, {"state.h": state.h, "state.c": state.c})
        outputs, cells = _unroll(projected, keep, recurrent_kernel, state.h, state.c)
        return tf.cast(outputs, self.compute_dtype), LSTMState(h=outputs[-1], c=cells[-1])

    @staticmethod
    def bias_initializer(shape: Sequence[int], dtype: Any = None) -> tf.Tensor:
        units = shape[0] // 4
        return tf.concat([tf.zeros([units], dtype), tf.ones([units], dtype), tf.zeros([2 * units], dtype)], axis=0)


class ResetGRU(_Recurrent):
    """A GRU whose state is zeroed before every step that begins an episode.

        r_t, z_t = sigmoid(x_t W + h_{t-1} R + b),  n_t = tanh(x_t W + b + r_t (h_{t-1} R))
        h_t = (1 - z_t) n_t + z_t h_{t-1}

    W, R and b have a separate part for each of r, z and n, in that order. The reset gate r acts after the product with
    R, as in cuDNN and PyTorch. The state is h, float32 [B, U].
    """

    gates = 3

    def initial_state(self, batch_size: int) -> tf.Tensor:
        """The zero state, float32 [B, U]."""
        return tf.zeros([batch_size, self.units])

    def call(self, inputs: Any, done: Any, state: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Unroll over T steps; arguments and results are those of `ResetLSTM.call`."""
        projected, keep, recurrent_kernel = self._project(inputs, done, {"state": state})
        gated = 2 * self.units

        def step(h: tf.Tensor, now: tuple[tf.Tensor, tf.Tensor]) -> tf.Tensor:
            x, keep_t = now
            h = tf.where(keep_t > 0, h, 0)  # a NaN ends with its episode
            recurrent = _product(h, recurrent_kernel)
            r, z = tf.split(tf.sigmoid(x[:, :gated] + recurrent[:, :gated]), 2, axis=-1)
            n = tf.tanh(x[:, gated:] + r * recurrent[:, gated:])
            return n + z * (h - n)

        outputs = tf.scan(step, (projected, keep), state)
        return tf.cast(outputs, self.compute_dtype), outputs[-1]


@tf.custom_gradient
def _unroll(
    projected: Any, keep: Any, recurrent_kernel: Any, h: Any, c: Any
) -> tuple[tuple[tf.Tensor, tf.Tensor], Callable]:
    """The outputs h_t and cells c_t, float32 [T, B, U], and their gradient.

    The gradient is written out because automatic differentiation would keep all intermediate results of every step on a
    stack and add up T gradients of the recurrent kernel. Here the backward loop carries only the gradient of the state,
    and a single product computes the gradient of the kernel. The arguments are the result of `_project` and the state
    before step 0.
    """
    gates, outputs, cells = _forward(projected, keep, recurrent_kernel, h, c)

    def gradient(d_outputs: tf.Tensor, d_cells: tf.Tensor) -> tuple:
        # The state from which each step started, after the reset.
        h_tm1 = tf.where(keep > 0, tf.concat([h[tf.newaxis], outputs[:-1]], axis=0), 0)
        c_tm1 = tf.where(keep > 0, tf.concat([c[tf.newaxis], cells[:-1]], axis=0), 0)
        d_projected, d_h, d_c = _backward(gates, cells, c_tm1, keep, recurrent_kernel, d_outputs, d_cells)
        d_recurrent_kernel = tf.tensordot(
            tf.cast(h_tm1, recurrent_kernel.dtype), tf.cast(d_projected, recurrent_kernel.dtype), [[0, 1], [0, 1]]
        )
        return d_projected, None, d_recurrent_kernel, d_h, d_c

    return (outputs, cells), gradient


def _forward(
    projected: Any, keep: Any, recurrent_kernel: Any, h: Any, c: Any
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """The gates i, f, o, g [T, B, 4U], the outputs and the cells [T, B, U] of all steps."""
    length, units = projected.shape[0], recurrent_kernel.shape[0]

    def one_step(projected, keep, h, c):
        h, c = tf.where(keep > 0, h, 0), tf.where(keep > 0, c, 0)  # a NaN ends with its episode
        z = projected + _product(h, recurrent_kernel)
        sigmoids, g = tf.sigmoid(z[:, : 3 * units]), tf.tanh(z[:, 3 * units :])
        i, f, o = tf.split(sigmoids, 3, axis=-1)
        c = f * c + i * g
        return tf.concat([sigmoids, g], -1), o * tf.tanh(c), c

    if length == 1:  # acting: a loop costs more than the step
        gates, h, c = one_step(projected[0], keep[0], h, c)
        return gates[tf.newaxis], h[tf.newaxis], c[tf.newaxis]

    def step(t, h, c, gates, outputs, cells):
        new_gates, h, c = one_step(projected[t], keep[t], h, c)
        return t + 1, h, c, gates.write(t, new_gates), outputs.write(t, h), cells.write(t, c)

    arrays = (_array(length, h, 4 * units), _array(length, h, units), _array(length, h, units))
    results = tf.while_loop(lambda t, *_: t < length, step, (0, h, c, *arrays), maximum_iterations=length)
    gates, outputs, cells = (array.stack() for array in results[3:])
    return gates, outputs, cells


def _backward(
    gates: Any, cells: Any, c_tm1: Any, keep: Any, recurrent_kernel: Any, d_outputs: Any, d_cells: Any
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """The gradients with respect to `projected` [T, B, 4U] and to the state before step 0, [B, U] twice."""
    length = gates.shape[0]
    i, f, o, g = tf.split(gates, 4, axis=-1)
    tanh_c = tf.tanh(cells)
    # The derivative of h_t by c_t, and those of c_t (for i, f, g) and h_t (for o) by the gates' inputs.
    c_by_h = o * (1.0 - tanh_c * tanh_c)
    by_gate = tf.concat([g * i * (1.0 - i), c_tm1 * f * (1.0 - f), tanh_c * o * (1.0 - o), i * (1.0 - g * g)], -1)
    c_by_c_tm1 = f * keep

    def step(t, d_h, d_c, d_projected):
        # d_h and d_c arrive from step t + 1.
        d_h += d_outputs[t]
        d_c += d_cells[t] + d_h * c_by_h[t]
        d_z = by_gate[t] * tf.concat([d_c, d_c, d_h, d_c], axis=-1)
        d_h_tm1 = keep[t] * _product(d_z, recurrent_kernel, transpose_b=True)
        return t - 1, d_h_tm1, d_c * c_by_c_tm1[t], d_projected.write(t, d_z)

    nothing = tf.zeros_like(d_outputs[0])
    start = (length - 1, nothing, nothing, _array(length, nothing, gates.shape[-1]))
    _, d_h, d_c, d_projected = tf.while_loop(lambda t, *_: t >= 0, step, start, maximum_iterations=length)
    return d_projected.stack(), d_h, d_c


def _product(x: tf.Tensor, kernel: tf.Tensor, transpose_b: bool = False) -> tf.Tensor:
    """The matrix product as float32, computed in the dtype of `kernel`."""
    return tf.cast(tf.matmul(tf.cast(x, kernel.dtype), kernel, transpose_b=transpose_b), tf.float32)


def _array(length: int, like: tf.Tensor, width: int) -> tf.TensorArray:
    """An empty array for `length` float32 tensors [B, width], where B is the first axis of `like`."""
    return tf.TensorArray(tf.float32, length, element_shape=[like.shape[0], width])
