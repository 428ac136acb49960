"""The dense torso against plain matrix products."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from seed_rl.networks.mlp import MLPTorso

HEIGHT, WIDTH, CHANNELS, HIDDEN = 5, 4, 3, 7
FEATURES = HEIGHT * WIDTH * CHANNELS


def random_frames(count, *shape):
    rng = np.random.default_rng(count)
    return tf.constant(rng.integers(0, 256, (count, *(shape or (HEIGHT, WIDTH, CHANNELS)))), tf.uint8)


def built(**settings):
    """A torso for frames, scaled as such."""
    keras.utils.set_random_seed(0)
    torso = MLPTorso(**({"hidden": HIDDEN, "scale": 1 / 255} | settings))
    torso.build((None, HEIGHT, WIDTH, CHANNELS))
    for v in torso.trainable_variables:  # biases start at zero, where a missing one would not be seen
        if v.name == "bias":
            v.assign(np.random.default_rng(1).uniform(-0.1, 0.1, v.shape))
    return torso


def plain(torso, frames):
    """float64, with no activation."""
    kernel, bias = (np.asarray(v.value, np.float64) for v in torso.trainable_variables)
    return np.reshape(np.asarray(frames, np.float64) / 255, (len(frames), -1)) @ kernel + bias


@pytest.mark.parametrize("count", [1, 6])
def test_features_are_rectified_products_of_frames_divided_by_255(count):
    torso, frames = built(), random_frames(count)
    features = torso(frames)
    assert features.shape == (count, HIDDEN)
    linear = plain(torso, frames)
    assert linear.min() < -0.1, "some are cut off"
    assert linear.max() > 0.1, "others are not"
    np.testing.assert_allclose(features, np.maximum(0, linear), rtol=1e-5, atol=1e-6)


def test_white_frames_are_ones():
    torso = built()
    kernel, bias = (np.asarray(v.value) for v in torso.trainable_variables)
    white = tf.fill([1, HEIGHT, WIDTH, CHANNELS], tf.constant(255, tf.uint8))
    np.testing.assert_allclose(torso(white)[0], np.maximum(0, kernel.sum(axis=0) + bias), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(torso(tf.zeros_like(white))[0], np.maximum(0, bias), rtol=1e-6)


@pytest.mark.parametrize("dtype", ["float32", "mixed_bfloat16"])
def test_float_frames_have_the_scale_of_uint8_frames(dtype):
    torso, frames = built(dtype=dtype), random_frames(2)
    np.testing.assert_array_equal(
        np.asarray(torso(tf.cast(frames, tf.float32)), np.float32), np.asarray(torso(frames), np.float32)
    )


def test_observations_of_any_rank_are_flattened():
    for shape in ((9,), (3, 3), (3, 1, 3, 1)):
        torso = MLPTorso(HIDDEN, scale=1 / 255)
        frames = random_frames(2, *shape)
        assert torso(frames).shape == (2, HIDDEN)
        np.testing.assert_allclose(torso(frames), np.maximum(0, plain(torso, frames)), rtol=1e-5, atol=1e-6)


def test_parameter_count_and_paths():
    torso = built()
    assert torso.count_params() == (FEATURES + 1) * HIDDEN == 427
    assert [v.path for v in torso.variables] == ["mlp_torso/dense_0/kernel", "mlp_torso/dense_0/bias"]
    assert built(hidden=256).count_params() == (FEATURES + 1) * 256
    deep = built(num_layers=3)
    assert deep.count_params() == (FEATURES + 1) * HIDDEN + 2 * (HIDDEN + 1) * HIDDEN
    assert [v.path for v in deep.variables] == [
        f"mlp_torso/dense_{index}/{name}" for index in range(3) for name in ("kernel", "bias")
    ]
    default = MLPTorso()
    assert default.compute_output_shape((None, HEIGHT, WIDTH, CHANNELS)) == (None, 256)


@pytest.mark.parametrize("num_layers", [1, 2, 3])
def test_layers_follow_one_another_each_rectified(num_layers):
    torso, frames = built(num_layers=num_layers), random_frames(5)
    x = np.reshape(np.asarray(frames, np.float64) / 255, (5, -1))
    weights = [np.asarray(v.value, np.float64) for v in torso.trainable_variables]
    assert len(weights) == 2 * num_layers
    for kernel, bias in zip(weights[::2], weights[1::2], strict=True):
        linear = x @ kernel + bias
        assert linear.min() < 0 < linear.max()
        x = np.maximum(0, linear)
    np.testing.assert_allclose(torso(frames), x, rtol=1e-5, atol=1e-6)


def test_inputs_are_multiplied_with_the_scale_whatever_their_dtype():
    values = np.array([[0, 1, 1], [1, 0, 1]])
    for scale in (None, 0.5):
        settings = {} if scale is None else {"scale": scale}
        torso = MLPTorso(HIDDEN, **settings)
        kernel = None
        for dtype in (bool, np.uint8, np.uint16, np.int32, np.int64, np.float16, np.float32, np.float64):
            features = torso(tf.constant(values.astype(dtype)))
            if kernel is None:
                kernel = np.asarray(torso.trainable_variables[0].value)
            expected = np.maximum(0, (scale or 1.0) * values @ kernel)
            np.testing.assert_allclose(features, expected, rtol=1e-5, atol=1e-6, err_msg=str(dtype))


def test_without_a_scale_floats_pass_as_they_are():
    torso = MLPTorso(HIDDEN)
    x = np.random.default_rng(0).normal(scale=3, size=(4, 6)).astype(np.float32)
    features = torso(x)
    kernel, bias = (np.asarray(v.value) for v in torso.trainable_variables)
    np.testing.assert_allclose(features, np.maximum(0, x @ kernel + bias), rtol=1e-5, atol=1e-5)
    assert np.any(features)


def test_the_kernel_initializer_reaches_the_kernel():
    for name, variance in (("glorot_uniform", 2 / (FEATURES + 512)), ("he_normal", 2 / FEATURES)):
        kernel = np.asarray(built(hidden=512, kernel_initializer=name).trainable_variables[0].value)
        assert kernel.shape == (FEATURES, 512)
        np.testing.assert_allclose(kernel.var(), variance, rtol=0.05, err_msg=name)
        second = np.asarray(built(hidden=512, num_layers=2, kernel_initializer=name).trainable_variables[2].value)
        np.testing.assert_allclose(second.var(), 2 / (1024 if name == "glorot_uniform" else 512), rtol=0.05)


def test_mixed_bfloat16_computes_in_bfloat16_with_float32_weights():
    exact, mixed = built(), built(dtype="mixed_bfloat16")
    frames = random_frames(4)
    features = mixed(frames)
    assert exact(frames).dtype == tf.float32
    assert features.dtype == tf.bfloat16
    assert {v.dtype for v in mixed.trainable_variables} == {"float32"}
    expected = np.asarray(exact(frames))
    error = np.linalg.norm(np.asarray(features, np.float32) - expected)
    assert 0 < error < 0.02 * np.linalg.norm(expected)


@pytest.mark.parametrize("dtype", ["float32", "mixed_bfloat16"])
def test_gradients_are_those_of_the_plain_product(dtype):
    torso, frames = built(dtype=dtype), random_frames(4)
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(tf.cast(torso(frames), tf.float32))
    gradients = tape.gradient(loss, [v.value for v in torso.trainable_variables])
    active = (plain(torso, frames) > 0).astype(np.float64)
    expected = [np.reshape(np.asarray(frames, np.float64) / 255, (4, -1)).T @ active, active.sum(axis=0)]
    assert 0 < active.mean() < 1
    for gradient, values in zip(gradients, expected, strict=True):
        assert gradient.dtype == tf.float32
        np.testing.assert_allclose(gradient, values, rtol=0, atol=1e-5 if dtype == "float32" else 0.02 * values.max())


def test_the_global_policy_of_keras_is_not_used():
    before = keras.config.dtype_policy().name
    keras.config.set_dtype_policy("mixed_float16")
    try:
        assert built()(random_frames(1)).dtype == tf.float32
    finally:
        keras.config.set_dtype_policy(before)
