"""Torsos against plain operations, closed-form parameter counts, and the names that checkpoints depend on."""

import subprocess
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf

from seed_rl.networks.recurrent import ResetLSTM
from seed_rl.networks.torsos import DeepTorso, ShallowTorso

TORSOS = {"shallow": ShallowTorso, "deep": DeepTorso}


@pytest.fixture(params=TORSOS)
def torso_class(request):
    return TORSOS[request.param]


def random_frames(count, height=36, width=40, channels=3, seed=0):
    rng = np.random.default_rng(seed)
    return tf.constant(rng.integers(0, 256, (count, height, width, channels), np.uint8))


def built(torso_class, shape=(None, 36, 40, 3), **kwargs):
    keras.utils.set_random_seed(0)
    torso = torso_class(**kwargs)
    torso.build(shape)
    for v in torso.trainable_variables:  # biases start at zero, where a missing one would not be seen
        if v.name == "bias":
            v.assign(np.random.default_rng(1).uniform(-0.1, 0.1, v.shape))
    return torso


def variables(torso):
    return {v.path.split("/", 1)[1]: v.value for v in torso.trainable_variables}


def plain_shallow(torso, frames):
    w = variables(torso)
    x = tf.cast(frames, tf.float32) / 255.0
    for name, stride in (("conv_0", 4), ("conv_1", 2), ("conv_2", 1)):
        x = tf.nn.relu(tf.nn.conv2d(x, w[f"{name}/kernel"], stride, "VALID") + w[f"{name}/bias"])
    return tf.nn.relu(tf.reshape(x, [len(x), -1]) @ w["dense/kernel"] + w["dense/bias"])


def plain_deep(torso, frames):
    w = variables(torso)

    def conv(x, name):
        return tf.nn.conv2d(x, w[f"{name}/kernel"], 1, "SAME") + w[f"{name}/bias"]

    x = tf.cast(frames, tf.float32) / 255.0
    for stage in sorted({name.split("/")[0] for name in w if name.startswith("stage")}):
        x = tf.nn.max_pool2d(conv(x, f"{stage}/conv"), 3, 2, "SAME")
        for block in sorted({"/".join(name.split("/")[:2]) for name in w if name.startswith(f"{stage}/residual")}):
            x = x + conv(tf.nn.relu(conv(tf.nn.relu(x), f"{block}/conv_0")), f"{block}/conv_1")
    x = tf.reshape(tf.nn.relu(x), [len(x), -1])
    return tf.nn.relu(x @ w["dense/kernel"] + w["dense/bias"])


PLAIN = {ShallowTorso: plain_shallow, DeepTorso: plain_deep}


@pytest.mark.parametrize("count", [1, 3])
def test_features_and_gradients_are_those_of_plain_operations(torso_class, count):
    torso = built(torso_class)
    frames = random_frames(count)
    results = []
    for function in (torso, lambda x: PLAIN[torso_class](torso, x)):
        with tf.GradientTape() as tape:
            features = function(frames)
            loss = tf.reduce_sum(tf.square(features))
        results.append([features, *tape.gradient(loss, [v.value for v in torso.trainable_variables])])
    assert results[0][0].shape == (count, 512 if torso_class is ShallowTorso else 256)
    for actual, expected in zip(*results, strict=True):
        assert np.any(expected)
        np.testing.assert_allclose(actual, expected, rtol=1e-3, atol=1e-3 * np.abs(expected).max())


def test_float_frames_have_the_scale_of_uint8_frames(torso_class):
    torso = built(torso_class)
    frames = random_frames(2)
    np.testing.assert_allclose(torso(tf.cast(frames, tf.float32)), torso(frames), rtol=1e-5, atol=1e-6)


def shallow_parameters(height, width, channels, hidden):
    for size, stride in ((8, 4), (4, 2), (3, 1)):
        height, width = (height - size) // stride + 1, (width - size) // stride + 1
    convs = 8 * 8 * channels * 32 + 32 + 4 * 4 * 32 * 64 + 64 + 3 * 3 * 64 * 64 + 64
    return convs + (height * width * 64 + 1) * hidden


def deep_parameters(height, width, inputs, channels, hidden, residual_blocks=2):
    total = 0
    for n in channels:
        height, width = -(-height // 2), -(-width // 2)
        total += 9 * inputs * n + n + 2 * residual_blocks * (9 * n * n + n)
        inputs = n
    return total + (height * width * inputs + 1) * hidden


def test_parameter_counts():
    assert built(ShallowTorso, (None, 84, 84, 4)).count_params() == shallow_parameters(84, 84, 4, 512) == 1_684_128
    assert built(ShallowTorso, (None, 36, 52, 1), hidden=7).count_params() == shallow_parameters(36, 52, 1, 7)
    torso = built(DeepTorso, (None, 72, 96, 3))
    assert torso.count_params() == deep_parameters(72, 96, 3, (16, 32, 32), 256)
    football = built(DeepTorso, (None, 72, 96, 16), channels=(16, 32, 32, 32), kernel_initializer="lecun_normal")
    assert football.count_params() == deep_parameters(72, 96, 16, (16, 32, 32, 32), 256)
    thin = built(DeepTorso, (None, 9, 7, 2), channels=(4,), hidden=3, residual_blocks=1)
    assert thin.count_params() == deep_parameters(9, 7, 2, (4,), 3, residual_blocks=1)


@pytest.mark.parametrize("residual_blocks", [1, 3])
@pytest.mark.parametrize("channels", [(5,), (4, 6, 3, 2)], ids=str)
def test_stages_and_blocks_are_as_many_as_asked_for(channels, residual_blocks):
    torso = built(DeepTorso, (None, 9, 7, 2), channels=channels, hidden=11, residual_blocks=residual_blocks)
    assert len(variables(torso)) == 2 * (len(channels) * (1 + 2 * residual_blocks) + 1)
    frames = random_frames(3, 9, 7, 2)
    expected = plain_deep(torso, frames)
    assert expected.shape == (3, 11)
    assert np.any(expected)
    np.testing.assert_allclose(torso(frames), expected, rtol=1e-3, atol=1e-5)


def test_the_kernel_initializer_reaches_every_kernel_and_no_two_are_alike():
    torso = built(DeepTorso, channels=(32, 32), kernel_initializer="lecun_normal")
    kernels = {name: np.asarray(value) for name, value in variables(torso).items() if name.endswith("kernel")}
    assert len(kernels) == 11
    for name, kernel in kernels.items():
        fan_in = np.prod(kernel.shape[:-1])
        np.testing.assert_allclose(kernel.std(), 1 / np.sqrt(fan_in), rtol=0.15, err_msg=name)
    alike = [kernels[f"stage_1/residual_{i}/conv_{j}/kernel"] for i in (0, 1) for j in (0, 1)]
    assert not any(np.array_equal(a, b) for i, a in enumerate(alike) for b in alike[:i])


def test_mixed_bfloat16_computes_in_bfloat16_with_float32_weights(torso_class):
    exact, mixed = built(torso_class), built(torso_class, dtype="mixed_bfloat16")
    frames = random_frames(4)
    features = mixed(frames)
    assert features.dtype == tf.bfloat16
    assert {v.dtype for v in mixed.trainable_variables} == {"float32"}
    expected = np.asarray(exact(frames))
    error = np.linalg.norm(np.asarray(features, np.float32) - expected)
    assert 0 < error < 0.02 * np.linalg.norm(expected)
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(tf.cast(mixed(frames), tf.float32))
    for gradient in tape.gradient(loss, [v.value for v in mixed.trainable_variables]):
        assert gradient.dtype == tf.float32
        assert np.all(np.isfinite(gradient))


@pytest.mark.parametrize("dtype", ["float32", "mixed_bfloat16"])
@pytest.mark.parametrize("count", [1, 2])
def test_compiled_by_xla_it_is_the_same(torso_class, count, dtype):
    torso = built(torso_class, dtype=dtype)
    frames = random_frames(count)
    features = np.asarray(tf.function(torso, jit_compile=True)(frames), np.float32)
    expected = np.asarray(torso(frames), np.float32)
    assert np.all(np.isfinite(features))
    scale = {"float32": 1e-5, "mixed_bfloat16": 3e-2}[dtype]
    np.testing.assert_allclose(features, expected, rtol=0, atol=scale * np.abs(expected).max())


@pytest.mark.parametrize("dtype", ["float32", "mixed_bfloat16"])
def test_no_nan_of_blank_and_of_white_frames_at_batch_one(torso_class, dtype):
    torso = built(torso_class, dtype=dtype)
    for value in (0, 255):
        features = torso(tf.fill([1, 36, 40, 3], tf.constant(value, tf.uint8)))
        assert np.all(np.isfinite(np.asarray(features, np.float32)))


def test_the_training_graph_never_computes_a_gradient_of_the_frames(torso_class):
    torso = built(torso_class)

    @tf.function
    def step(frames):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(torso(frames))
        return tape.gradient(loss, [v.value for v in torso.trainable_variables])

    graph = step.get_concrete_function(random_frames(2)).graph
    # What no output depends on is pruned before the graph runs.
    needed, queue = set(), [output.op for output in graph.outputs]
    while queue:
        op = queue.pop()
        if op not in needed:
            needed.add(op)
            queue.extend([*(x.op for x in op.inputs), *op.control_inputs])
    convolutions = sum(v.name == "kernel" and len(v.shape) == 4 for v in torso.trainable_variables)
    assert sum(op.type == "Conv2DBackpropFilter" for op in needed) == convolutions
    assert sum(op.type == "Conv2DBackpropInput" for op in needed) == convolutions - 1


def test_variable_paths(torso_class):
    paths = [v.path for v in built(torso_class).trainable_variables]
    if torso_class is ShallowTorso:
        layers = ["conv_0", "conv_1", "conv_2", "dense"]
    else:
        inner = ["conv", *(f"residual_{i}/conv_{j}" for i in (0, 1) for j in (0, 1))]
        layers = [*(f"stage_{i}/{layer}" for i in range(3) for layer in inner), "dense"]
    name = "shallow_torso" if torso_class is ShallowTorso else "deep_torso"
    assert paths == [f"{name}/{layer}/{kind}" for layer in layers for kind in ("kernel", "bias")]


@pytest.mark.parametrize("way", ["build", "call", "traced call"])
def test_variable_paths_depend_on_nothing_made_before(torso_class, way):
    keras.layers.Conv2D(3, 3).build((None, 8, 8, 1))  # moves the counters that Keras names unnamed layers by
    first, second = torso_class(), torso_class()
    first.build((None, 36, 40, 3))
    if way == "build":
        second.build((None, 36, 40, 3))
    else:
        function = tf.function(second) if way == "traced call" else second
        function(random_frames(2))
    assert [v.path for v in first.variables] == [v.path for v in second.variables]
    assert len({v.path for v in first.variables}) == len(first.variables) > 7


SCRIPT = """
import keras
from seed_rl.networks import recurrent, torsos
torso, lstm = torsos.DeepTorso(), recurrent.ResetLSTM(4)
torso.build((None, 36, 40, 3))
lstm.build((None, None, 3))
print(*(v.path for v in torso.variables + lstm.variables))
"""


def test_variable_paths_are_the_same_in_another_process():
    ResetLSTM(3).build((None, None, 2))
    torso, lstm = built(DeepTorso), ResetLSTM(4)
    lstm.build((None, None, 3))
    output = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True).stdout
    assert output.split() == [v.path for v in torso.variables + lstm.variables]


def test_the_global_policy_of_keras_is_neither_used_nor_changed(torso_class):
    before = keras.config.dtype_policy().name
    keras.config.set_dtype_policy("mixed_float16")
    try:
        torso = built(torso_class)
        assert torso(random_frames(1)).dtype == tf.float32
        assert keras.config.dtype_policy().name == "mixed_float16"
    finally:
        keras.config.set_dtype_policy(before)


@pytest.mark.parametrize("shape", [(35, 84), (84, 35), (4, 4)])
def test_frames_too_small_for_the_shallow_torso_are_refused(shape):
    with pytest.raises(ValueError, match=f"frames of {shape[0]} x {shape[1]} are too small for ShallowTorso"):
        ShallowTorso().build((None, *shape, 4))


def test_the_least_frames_will_do():
    size = ShallowTorso.MIN_FRAME_SIZE
    assert built(ShallowTorso, (None, size, size, 1))(random_frames(1, size, size, 1)).shape == (1, 512)
    assert built(DeepTorso, (None, 1, 1, 1))(random_frames(1, 1, 1, 1)).shape == (1, 256)


def test_frames_of_another_rank_are_refused(torso_class):
    for shape in ((None, 84, 84), (None, None, 84, 84, 4), (None, None, 84, 4)):
        with pytest.raises(ValueError, match="frames must have shape"):
            torso_class().build(shape)
    with pytest.raises(ValueError, match="frames must have rank 4"):
        built(torso_class)(tf.zeros([36, 40, 3]))
