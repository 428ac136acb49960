"""Torsos against plain operations, and the names that checkpoints depend on. `golden` has the shallow one."""

import functools

import keras
import numpy as np
import pytest
import tensorflow as tf

from seed_rl.envs.dmlab import VOCABULARY
from seed_rl.networks.config import NATURE_DQN, TrunkConfig, smallest_frame
from seed_rl.networks.torsos import WordTorso, deep_torso, mlp_torso, shallow_torso

TORSOS = {
    "deep": deep_torso,
    "spectral": functools.partial(deep_torso, spectral=True),
    "mlp": functools.partial(mlp_torso, scale=1 / 255),
}
SIZES = {"channels": (4, 6), "mlp_layers": 2}
FRAMES = {"deep": (9, 7, 3), "spectral": (43, 20, 3), "mlp": (5, 4, 3)}


def random_frames(count, shape, seed=0):
    return tf.constant(np.random.default_rng(seed).integers(0, 256, (count, *shape), np.uint8))


def built(torso, shape):
    torso.build((None, *shape))
    for v in torso.trainable_variables:  # biases start at zero, where a missing one would not be seen
        if v.name == "bias":
            v.assign(np.random.default_rng(1).uniform(-0.1, 0.1, v.shape))
    return torso


def make(kind, **settings):
    keras.layers.Conv2D(3, 3).build((None, 8, 8, 1))  # moves the counters that Keras names unnamed layers by
    keras.utils.set_random_seed(0)
    return built(TORSOS[kind](TrunkConfig(**SIZES | settings)), FRAMES[kind])


def variables(torso):
    """Weights by their paths, which checkpoints depend on, below the torso's."""
    return {v.path.removeprefix(f"{torso.name}/"): v.value for v in torso.trainable_variables}


def plain_deep(torso, frames, norm=lambda kernel: 1.0, pool=lambda x: x):
    w = variables(torso)

    def conv(x, name):
        kernel = tf.identity(w[f"{name}/kernel"])
        kernel = kernel / norm(kernel) if "residual" in name else kernel
        return tf.nn.conv2d(x, kernel, 1, "SAME") + w[f"{name}/bias"]

    x = tf.cast(frames, tf.float32) / 255.0
    for stage in sorted({name.split("/")[0] for name in w if name.startswith("stage")}):
        x = tf.nn.max_pool2d(conv(x, f"{stage}/conv"), 3, 2, "SAME")
        for block in sorted({"/".join(name.split("/")[:2]) for name in w if name.startswith(f"{stage}/residual")}):
            x = x + conv(tf.nn.relu(conv(tf.nn.relu(x), f"{block}/conv_0")), f"{block}/conv_1")
    x = tf.reshape(pool(tf.nn.relu(x)), [len(x), -1])
    return tf.nn.relu(x @ w["dense/kernel"] + w["dense/bias"])


def plain_spectral(torso, frames):
    def pool(x):
        rows = [(0, 2), (1, 4), (3, 6), (5, 8), (7, 10), (9, 11)]  # 11 to 6, overlapping; the 5 columns stay
        assert x.shape[1:3] == (11, 5)
        return tf.stack([tf.reduce_max(x[:, start:stop], axis=1) for start, stop in rows], axis=1)

    norm = lambda kernel: tf.linalg.svd(tf.reshape(kernel, [-1, kernel.shape[-1]]), compute_uv=False)[0]  # noqa: E731
    return plain_deep(torso, frames, norm, pool)


def plain_mlp(torso, frames, scale=1 / 255):
    w = variables(torso)
    x = tf.reshape(tf.cast(frames, tf.float32) * scale, [len(frames), -1])
    for index in range(len(w) // 2):
        x = tf.nn.relu(x @ w[f"dense_{index}/kernel"] + w[f"dense_{index}/bias"])
    return x


PLAIN = {"deep": plain_deep, "spectral": plain_spectral, "mlp": plain_mlp}


@pytest.mark.parametrize("kind", TORSOS)
def test_features_and_gradients_are_those_of_plain_operations(kind):
    torso, frames = make(kind), random_frames(3, FRAMES[kind])
    results = []
    for function in (torso, lambda x: PLAIN[kind](torso, x)):
        with tf.GradientTape() as tape:
            features = function(frames)
            loss = tf.reduce_sum(tf.square(features))
        results.append([features, *tape.gradient(loss, [v.value for v in torso.trainable_variables])])
    assert results[0][0].shape == (3, 256)
    assert 0 < np.mean(results[1][0] == 0) < 1, "some are cut off, others are not"
    for actual, expected in zip(*results, strict=True):
        assert np.any(expected)
        np.testing.assert_allclose(actual, expected, rtol=1e-3, atol=1e-3 * np.abs(expected).max())
    standardised = torso(tf.cast(frames, tf.float32))  # floats have the scale of the numbers in uint8 frames
    np.testing.assert_allclose(standardised, results[0][0], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("shape", "dtype", "num_layers", "scale"),
    [((), np.int64, 1, 1.0), ((9,), bool, 3, 1.0), ((9,), np.float64, 1, 0.5), ((3, 1, 3), np.uint16, 2, 0.5)],
)
def test_the_dense_torso_flattens_observations_of_any_rank_and_dtype(shape, dtype, num_layers, scale):
    torso = mlp_torso(TrunkConfig(hidden=7, mlp_layers=num_layers), scale)
    x = np.random.default_rng(0).integers(0, 2, (4, *shape)).astype(dtype)
    features = torso(tf.constant(x))
    assert len(torso.variables) == 2 * num_layers
    np.testing.assert_allclose(features, plain_mlp(torso, x, scale), rtol=1e-5, atol=1e-5)


def test_the_kernel_initializer_reaches_every_kernel_and_no_two_are_alike():
    config = TrunkConfig(hidden=256, channels=(32, 32), kernel_initializer="lecun_normal")
    torso = built(deep_torso(config), (18, 20, 3))
    kernels = {name: np.asarray(value) for name, value in variables(torso).items() if name.endswith("kernel")}
    assert len(kernels) == 11
    for name, kernel in kernels.items():
        fan_in = np.prod(kernel.shape[:-1])
        np.testing.assert_allclose(kernel.std(), 1 / np.sqrt(fan_in), rtol=0.15, err_msg=name)
    assert len({kernel.tobytes() for kernel in kernels.values()}) == 11


@pytest.mark.parametrize("kind", ["deep", "mlp"])
def test_mixed_bfloat16_computes_in_bfloat16_with_float32_weights(kind):
    exact, mixed = make(kind), make(kind, dtype="mixed_bfloat16")
    frames = random_frames(4, FRAMES[kind])
    features, expected = mixed(frames), np.asarray(exact(frames))
    assert features.dtype == tf.bfloat16
    assert {v.dtype for v in mixed.trainable_variables} == {"float32"}
    error = np.linalg.norm(np.asarray(features, np.float32) - expected)
    assert 0 < error < 0.02 * np.linalg.norm(expected)


def test_words_are_read_up_to_the_last_one():
    torso, words = WordTorso(), np.array([[3, 7, 0, 0], [3, 7, 9, 0], [0, 0, 0, 0], [3, 7, 0, 0]], np.uint16)
    words[3, :2] += VOCABULARY
    features = torso(words)
    assert features.shape == (4, 64)
    np.testing.assert_allclose(features[0], torso(words[:1, :2])[0], rtol=1e-5, atol=1e-7)
    assert np.abs(features[0] - features[1]).max() > 1e-4, "the third word matters"
    assert np.abs(features[0] - torso(words[:1, 1::-1])[0]).max() > 1e-4, "so does their order"
    np.testing.assert_array_equal(features[2], 0)
    np.testing.assert_array_equal(features[3], features[0], err_msg="numbers above the vocabulary share embeddings")


@pytest.mark.parametrize(("convolutions", "smallest"), [(NATURE_DQN, 36), (((16, 4, 2), (32, 4, 2), (64, 3, 2)), 18)])
def test_the_smallest_frame_is_one_of_which_the_convolutions_leave_a_pixel(convolutions, smallest):
    assert smallest_frame(convolutions) == smallest
    torso = shallow_torso(TrunkConfig(hidden=8, convolutions=convolutions))
    assert torso(random_frames(1, (smallest, smallest, 1))).shape == (1, 8)
    with pytest.raises(ValueError, match="negative|non-positive|dimension"):
        shallow_torso(TrunkConfig(convolutions=convolutions)).build((None, smallest - 1, smallest, 1))
