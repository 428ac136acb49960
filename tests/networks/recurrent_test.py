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


def lstm_step(lstm, x, state):
    h, c = state
    i, f, o, g = tf.split(x @ lstm.kernel + h @ lstm.recurrent_kernel + lstm.bias, 4, axis=-1)
    c = tf.sigmoid(f) * c + tf.sigmoid(i) * tf.tanh(g)
    h = tf.sigmoid(o) * tf.tanh(c)
    return h, LSTMState(h, c)


def gru_step(gru, x, h):
    (given_r, given_z, given_n), (r, z, n) = (
        tf.split(part, 3, axis=-1) for part in (x @ gru.kernel + gru.bias, h @ gru.recurrent_kernel)
    )
    r, z = tf.sigmoid(given_r + r), tf.sigmoid(given_z + z)
    h = (1 - z) * tf.tanh(given_n + r * n) + z * h
    return h, h


def by_formulas(step, layer, inputs, done, state):
    """One step at a time, left to automatic differentiation."""
    outputs = []
    for t in range(inputs.shape[0]):
        state = tf.nest.map_structure(lambda part, t=t: tf.where(done[t][:, None], 0.0, part), state)
        output, state = step(layer, inputs[t], state)
        outputs.append(output)
    return tf.stack(outputs), state


def learned(function, layer, inputs, done, state):
    """Outputs, state and the gradients of a loss that weighs all of them, by all that has a gradient."""
    sources = [inputs, *tf.nest.flatten(state), *(v.value for v in layer.trainable_variables)]
    with tf.GradientTape() as tape:
        tape.watch([inputs, *tf.nest.flatten(state)])
        outputs, state = function(inputs, done, state)
        weights = tf.constant(np.random.default_rng(7).standard_normal(outputs.shape), tf.float32)
        loss = tf.reduce_sum(tf.cast(outputs, tf.float32) * weights)
        loss += tf.add_n([tf.reduce_sum(tf.sin(part)) for part in tf.nest.flatten(state)])
    return outputs, *tf.nest.flatten(state), *tape.gradient(loss, sources)


@pytest.mark.parametrize(("length", "compiled"), [(1, False), (9, True)])
@pytest.mark.parametrize(("kind", "step"), [(ResetLSTM, lstm_step), (ResetGRU, gru_step)], ids=["lstm", "gru"])
def test_a_layer_and_its_gradients_are_those_of_the_formulas(kind, step, length, compiled):
    layer, (inputs, done, state) = make(kind), random_arguments(length, 4)
    state = state if kind is ResetLSTM else state.h
    assert length < 9 or np.any(done[1:-1]), "an episode ends in mid-sequence"
    call = tf.function(learned, jit_compile=True, autograph=False) if compiled else learned
    actual = call(layer, layer, inputs, done, state)
    expected = learned(lambda *own: by_formulas(step, layer, *own), layer, inputs, done, state)
    for a, e in zip(actual, expected, strict=True):
        assert np.any(e)
        np.testing.assert_allclose(a, e, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", [ResetLSTM, ResetGRU])
def test_a_state_that_is_no_number_ends_with_its_episode(kind):
    layer, (inputs, _, state) = make(kind), random_arguments(2, 3)
    state = state if kind is ResetLSTM else state.h
    lost = tf.nest.map_structure(lambda part: part * np.nan, state)
    outputs, _ = layer(inputs, tf.constant([[False] * 3, [True] * 3]), lost)
    assert np.isnan(outputs[0]).all()
    assert np.isfinite(outputs[1]).all()
    for found in learned(lambda *arguments: layer(*arguments), layer, inputs, tf.fill([2, 3], True), lost):
        assert np.isfinite(found).all()


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


def test_the_forget_gate_begins_open():
    lstm = ResetLSTM(2)
    lstm.build((None, None, 3))
    np.testing.assert_array_equal(lstm.bias.value, np.repeat([0.0, 1.0, 0.0, 0.0], 2))
