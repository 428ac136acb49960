"""LSTM and GRU against their formulas, and the LSTM's own gradients against automatic differentiation."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from seed_rl.networks.recurrent import LSTMState, ResetGRU, ResetLSTM

F, U = 5, 6


def make(layer=ResetLSTM, units=U, features=F, dtype="float32"):
    keras.utils.set_random_seed(0)
    made = layer(units, dtype=dtype)
    made.build((None, None, features))
    made.bias.assign(np.random.default_rng(5).standard_normal(made.bias.shape))
    return made


def random_arguments(length, batch, units=U, features=F):
    rng = np.random.default_rng(0)
    inputs = tf.constant(rng.standard_normal((length, batch, features)), tf.float32)
    done = tf.constant(rng.random((length, batch)) < 0.3)
    state = LSTMState(*tf.constant(rng.standard_normal((2, batch, units)), tf.float32))
    return inputs, done, state


def lstm_formulas(lstm, inputs, done, state):
    """One step at a time, left to automatic differentiation."""
    h, c = state
    outputs = []
    for t in range(inputs.shape[0]):
        keep = tf.where(done[t], 0.0, 1.0)[:, None]
        h, c = h * keep, c * keep
        i, f, o, g = tf.split(inputs[t] @ lstm.kernel + h @ lstm.recurrent_kernel + lstm.bias, 4, axis=-1)
        c = tf.sigmoid(f) * c + tf.sigmoid(i) * tf.tanh(g)
        h = tf.sigmoid(o) * tf.tanh(c)
        outputs.append(h)
    return tf.stack(outputs), LSTMState(h, c)


def learned(function, lstm, inputs, done, state):
    """Outputs, state and the gradients of a loss that weighs all of them, by all that has a gradient."""
    rng = np.random.default_rng(7)
    sources = [inputs, *state, *(v.value for v in lstm.trainable_variables)]
    with tf.GradientTape() as tape:
        tape.watch([inputs, *state])
        outputs, (h, c) = function(inputs, done, state)
        weights = tf.constant(rng.standard_normal(outputs.shape), tf.float32)
        loss = tf.reduce_sum(tf.cast(outputs, tf.float32) * weights) + tf.reduce_sum(h * h) + tf.reduce_sum(tf.sin(c))
    return outputs, h, c, *tape.gradient(loss, sources)


@pytest.mark.parametrize(("length", "batch", "compiled"), [(1, 3, False), (9, 4, True)])
def test_an_lstm_and_its_gradients_are_those_of_the_formulas(length, batch, compiled):
    lstm, arguments = make(), random_arguments(length, batch)
    assert length < 9 or np.any(arguments[1][1:-1]), "an episode ends in mid-sequence"
    call = tf.function(learned, jit_compile=True, autograph=False) if compiled else learned
    actual, expected = call(lstm, lstm, *arguments), learned(lambda *own: lstm_formulas(lstm, *own), lstm, *arguments)
    assert len(actual) == 3 + 6
    for a, e in zip(actual, expected, strict=True):
        assert np.any(e)
        np.testing.assert_allclose(a, e, rtol=1e-4, atol=1e-5)


def test_mixed_bfloat16_stays_close_with_a_float32_state_and_gradients():
    """Compiled, and at the width of the published runs."""
    exact, mixed = (make(units=256, features=275, dtype=dtype) for dtype in ("float32", "mixed_bfloat16"))
    arguments = random_arguments(10, 4, 256, 275)
    outputs, *others = tf.function(learned, jit_compile=True, autograph=False)(mixed, mixed, *arguments)
    assert outputs.dtype == tf.bfloat16
    for a, e in zip((tf.cast(outputs, tf.float32), *others), learned(exact, exact, *arguments), strict=True):
        assert a.dtype == tf.float32
        assert np.linalg.norm(a - e) < 0.03 * np.linalg.norm(e)
    # The state of the last step is not rounded to what the outputs are.
    assert np.any(tf.cast(outputs[-1], tf.float32) != others[0])
    for field in mixed.initial_state(3):
        np.testing.assert_array_equal(field, np.zeros((3, 256), np.float32), strict=True)


def test_mixed_bfloat16_rounds_nothing_outside_the_matrix_products():
    exact, mixed = make(), make(dtype="mixed_bfloat16")
    for lstm in (exact, mixed):
        lstm.kernel.assign(tf.zeros_like(lstm.kernel))
        lstm.recurrent_kernel.assign(tf.zeros_like(lstm.recurrent_kernel))
    arguments = random_arguments(9, 4)
    np.testing.assert_allclose(mixed(*arguments)[1], exact(*arguments)[1], rtol=1e-6, atol=1e-6)


def test_variables_have_names_and_the_forget_gate_begins_open():
    lstm = ResetLSTM(2)
    lstm.build((None, None, 3))
    names = ("kernel", "recurrent_kernel", "bias")
    assert [v.path for v in lstm.trainable_variables] == [f"recurrent/{name}" for name in names]
    np.testing.assert_array_equal(lstm.bias.value, np.repeat([0.0, 1.0, 0.0, 0.0], 2))


def gru_formulas(gru, inputs, done, h):
    """One step at a time, left to automatic differentiation."""
    outputs = []
    for t in range(inputs.shape[0]):
        h = tf.where(done[t][:, None], 0.0, h)
        (given_r, given_z, given_n), (r, z, n) = (
            tf.split(x, 3, axis=-1) for x in (inputs[t] @ gru.kernel + gru.bias, h @ gru.recurrent_kernel)
        )
        r, z = tf.sigmoid(given_r + r), tf.sigmoid(given_z + z)
        h = (1 - z) * tf.tanh(given_n + r * n) + z * h
        outputs.append(h)
    return tf.stack(outputs), h


@pytest.mark.parametrize(("length", "compiled"), [(1, False), (9, True)])
def test_a_gru_and_its_gradients_are_those_of_the_formulas(length, compiled):
    gru = make(ResetGRU)
    inputs, done, (h, _) = random_arguments(length, 4)

    def slopes(function):
        with tf.GradientTape() as tape:
            outputs, state = function(inputs, done, h)
            loss = tf.reduce_sum(tf.square(outputs))
        return outputs, state, *tape.gradient(loss, [variable.value for variable in gru.trainable_variables])

    call = tf.function(slopes, jit_compile=True, autograph=False) if compiled else slopes
    for a, e in zip(call(gru), slopes(lambda *own: gru_formulas(gru, *own)), strict=True):
        np.testing.assert_allclose(a, e, rtol=1e-4, atol=1e-5)
