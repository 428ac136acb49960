"""LSTM and GRU against naive loops, and their gradients against automatic differentiation and finite differences."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from seed_rl.networks.recurrent import LSTMState, ResetGRU, ResetLSTM
from tests.support.gradients import finite_differences

F, U = 5, 6


def make(units=U, features=F, dtype="float32", seed=0):
    keras.utils.set_random_seed(seed)
    lstm = ResetLSTM(units, dtype=dtype)
    lstm.build((None, None, features))
    return lstm


def random_arguments(length, batch, units=U, features=F, seed=0):
    rng = np.random.default_rng(seed)
    inputs = tf.constant(rng.standard_normal((length, batch, features)), tf.float32)
    done = tf.constant(rng.random((length, batch)) < 0.3)
    state = LSTMState(*tf.constant(rng.standard_normal((2, batch, units)), tf.float32))
    return inputs, done, state


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def naive(lstm, inputs, done, state):
    """One sequence, one step and one gate at a time, float64."""
    kernel, recurrent, bias = (np.asarray(w.value, np.float64) for w in (lstm.kernel, lstm.recurrent_kernel, lstm.bias))
    gates = [slice(k * lstm.units, (k + 1) * lstm.units) for k in range(4)]
    inputs, done = np.asarray(inputs, np.float64), np.asarray(done)
    hs, cs = np.array(state.h, np.float64), np.array(state.c, np.float64)
    outputs = np.zeros((*inputs.shape[:2], lstm.units))
    for t, b in np.ndindex(inputs.shape[:2]):
        if done[t, b]:
            hs[b] = cs[b] = 0.0
        z = [inputs[t, b] @ kernel[:, g] + hs[b] @ recurrent[:, g] + bias[g] for g in gates]
        cs[b] = sigmoid(z[1]) * cs[b] + sigmoid(z[0]) * np.tanh(z[3])
        hs[b] = outputs[t, b] = sigmoid(z[2]) * np.tanh(cs[b])
    return outputs, LSTMState(hs, cs)


def reference(lstm, inputs, done, state):
    """The same function of TensorFlow operations, left to automatic differentiation."""
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


def assert_close(actual, expected, **tolerance):
    (outputs, state), (expected_outputs, expected_state) = actual, expected
    for a, e in ((outputs, expected_outputs), (state.h, expected_state.h), (state.c, expected_state.c)):
        assert a.shape == e.shape
        np.testing.assert_allclose(np.asarray(a, np.float32), e, **({"rtol": 1e-5, "atol": 1e-5} | tolerance))


@pytest.mark.parametrize(("length", "batch"), [(1, 1), (1, 4), (2, 1), (9, 1), (9, 4)])
def test_equals_the_naive_loop_with_episodes_ending_in_mid_sequence(length, batch):
    lstm = make()
    lstm.bias.assign(np.random.default_rng(5).standard_normal(4 * U))
    arguments = random_arguments(length, batch)
    if (length, batch) == (9, 4):
        assert np.any(arguments[1][1:-1])
        assert np.any(arguments[1][0])
    assert_close(lstm(*arguments), naive(lstm, *arguments))


def gradients(function, lstm, inputs, done, state):
    """Differentiate a loss that weighs every output and the last state by everything that has a gradient."""
    rng = np.random.default_rng(7)
    sources = [inputs, *state, *(v.value for v in lstm.trainable_variables)]
    with tf.GradientTape() as tape:
        tape.watch([inputs, *state])
        outputs, (h, c) = function(inputs, done, state)
        weights = tf.constant(rng.standard_normal(outputs.shape), tf.float32)
        loss = tf.reduce_sum(tf.cast(outputs, tf.float32) * weights) + tf.reduce_sum(h * h) + tf.reduce_sum(tf.sin(c))
    return tape.gradient(loss, sources)


@pytest.mark.parametrize(("mode", "length", "batch"), [("eager", 1, 3), ("eager", 8, 1), ("compiled", 8, 3)])
def test_gradients_are_those_of_automatic_differentiation(mode, length, batch):
    lstm = make()
    arguments = random_arguments(length, batch, seed=1)

    def function(*arguments):
        return gradients(lstm, lstm, *arguments)

    if mode == "compiled":
        function = tf.function(function, jit_compile=True, autograph=False)
    expected = gradients(lambda *a: reference(lstm, *a), lstm, *arguments)
    actual = function(*arguments)
    assert len(actual) == 6
    for a, e in zip(actual, expected, strict=True):
        assert np.any(np.asarray(e)) or length == 1
        np.testing.assert_allclose(a, e, rtol=1e-4, atol=1e-5)


def test_gradients_are_the_finite_differences_of_the_naive_loop():
    lstm = make(units=2, features=2)
    inputs, done, state = random_arguments(4, 2, units=2, features=2, seed=2)
    assert np.any(done[1:])
    with tf.GradientTape() as tape:
        tape.watch(inputs)
        loss = tf.reduce_sum(tf.square(lstm(inputs, done, state)[0]))
    by_inputs, by_kernel = tape.gradient(loss, [inputs, lstm.recurrent_kernel.value])

    def naive_loss(inputs):
        return np.sum(naive(lstm, inputs, done, state)[0] ** 2)

    slopes = finite_differences(naive_loss, np.asarray(inputs, np.float64), epsilon=1e-5)
    np.testing.assert_allclose(by_inputs, slopes, atol=1e-5)
    weights = np.asarray(lstm.recurrent_kernel.value)

    def naive_loss_of_weights(kernel):
        lstm.recurrent_kernel.assign(kernel)
        return naive_loss(inputs)

    np.testing.assert_allclose(by_kernel, finite_differences(naive_loss_of_weights, weights), atol=2e-4)


def test_mixed_bfloat16_stays_close_and_keeps_a_float32_state():
    exact, mixed = make(units=32), make(units=32, dtype="mixed_bfloat16")
    arguments = random_arguments(20, 4, units=32)
    outputs, state = mixed(*arguments)
    assert outputs.dtype == tf.bfloat16
    assert state.h.dtype == state.c.dtype == tf.float32
    assert {v.dtype for v in mixed.trainable_variables} == {"float32"}
    assert_close((outputs, state), exact(*arguments), rtol=0, atol=0.03)
    for field in mixed.initial_state(3):
        assert field.dtype == tf.float32
        np.testing.assert_array_equal(field, np.zeros((3, 32)))
    # The state of the last step is not rounded to what the outputs are.
    assert np.any(tf.cast(outputs[-1], tf.float32) != state.h)


def test_mixed_bfloat16_rounds_nothing_outside_the_matrix_products():
    exact, mixed = make(), make(dtype="mixed_bfloat16")
    for lstm in (exact, mixed):
        lstm.kernel.assign(tf.zeros_like(lstm.kernel))
        lstm.recurrent_kernel.assign(tf.zeros_like(lstm.recurrent_kernel))
        lstm.bias.assign(np.random.default_rng(5).standard_normal(4 * U))
    arguments = random_arguments(9, 4)
    compiled = tf.function(mixed, jit_compile=True, autograph=False)
    np.testing.assert_allclose(compiled(*arguments)[1], exact(*arguments)[1], rtol=1e-6, atol=1e-6)


def test_mixed_bfloat16_gradients_are_float32_and_close():
    """Compiled, and at the width of the published runs."""
    units, features = 256, 275
    exact, mixed = (make(units, features, dtype) for dtype in ("float32", "mixed_bfloat16"))
    arguments = random_arguments(20, 4, units, features)
    compiled = tf.function(lambda *arguments: gradients(mixed, mixed, *arguments), jit_compile=True, autograph=False)
    for a, e in zip(compiled(*arguments), gradients(exact, exact, *arguments), strict=True):
        assert a.dtype == tf.float32
        assert np.all(np.isfinite(a))
        assert np.linalg.norm(a - e) < 0.03 * np.linalg.norm(e)


def test_variables_and_their_initial_values():
    lstm = make(units=64, features=40)
    assert [v.path for v in lstm.trainable_variables] == [
        f"recurrent/{name}" for name in ("kernel", "recurrent_kernel", "bias")
    ]
    assert lstm.count_params() == 4 * 64 * (40 + 64 + 1)
    recurrent = np.asarray(lstm.recurrent_kernel.value)
    np.testing.assert_allclose(recurrent @ recurrent.T, np.eye(64), atol=1e-5)
    limit = np.sqrt(6 / (40 + 4 * 64))
    assert 0.9 * limit < np.abs(lstm.kernel.value).max() <= limit
    np.testing.assert_array_equal(lstm.bias.value, np.repeat([0.0, 1.0, 0.0, 0.0], 64))


def test_wrong_shapes_are_named():
    lstm = make()
    inputs, done, state = random_arguments(4, 3)
    with pytest.raises(ValueError, match="inputs must have rank 3"):
        lstm(inputs[0], done, state)
    with pytest.raises(ValueError, match="done must have shape"):
        lstm(inputs, done[:1], state)
    with pytest.raises(ValueError, match=r"state\.h must have shape"):
        lstm(inputs, done, state._replace(h=state.h[:1]))
    with pytest.raises(ValueError, match=r"state\.c must have shape"):
        lstm(inputs, done, state._replace(c=state.c[:, :1]))


def naive_gru(gru, inputs, done, h):
    """One step at a time, in NumPy."""
    kernel, recurrent, bias = (np.asarray(w.value, np.float64) for w in (gru.kernel, gru.recurrent_kernel, gru.bias))
    outputs, h = [], np.array(h, np.float64)
    for x, first in zip(np.asarray(inputs, np.float64), np.asarray(done), strict=True):
        h = np.where(first[:, None], 0.0, h)
        given, kept = np.split(x @ kernel + bias, 3, axis=-1), np.split(h @ recurrent, 3, axis=-1)
        r, z = (sigmoid(given[k] + kept[k]) for k in range(2))
        h = (1 - z) * np.tanh(given[2] + r * kept[2]) + z * h
        outputs.append(h)
    return np.array(outputs)


@pytest.mark.parametrize(("length", "compiled"), [(1, False), (9, False), (9, True)])
def test_a_gru_equals_its_naive_loop_and_differentiates_through_it(length, compiled):
    keras.utils.set_random_seed(0)
    gru = ResetGRU(U)
    gru.build((None, None, F))
    gru.bias.assign(np.random.default_rng(5).standard_normal(3 * U))
    inputs, done, (h, _) = random_arguments(length, 4)

    def slopes(inputs):
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            outputs, state = gru(inputs, done, h)
            loss = tf.reduce_sum(tf.square(outputs))
        return outputs, state, tape.gradient(loss, [inputs, gru.recurrent_kernel.value])

    outputs, state, (by_inputs, by_kernel) = (tf.function(slopes, jit_compile=True) if compiled else slopes)(inputs)
    np.testing.assert_allclose(outputs, naive_gru(gru, inputs, done, h), atol=1e-5)
    np.testing.assert_array_equal(state, outputs[-1])
    expected = finite_differences(lambda x: np.sum(naive_gru(gru, x, done, h) ** 2), np.asarray(inputs, np.float64))
    np.testing.assert_allclose(by_inputs, expected, atol=1e-3)
    assert np.any(by_kernel)
