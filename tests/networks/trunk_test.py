"""The trunk: resets, unrolling and the inputs of the core, over kinds of observations and actions, its torsos, with and
without frame stack and LSTM."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from seed_rl.envs.base import random_actions
from seed_rl.networks.trunk import Trunk, torso_of, unpack_planes
from seed_rl.specs import ArraySpec, ContinuousSpec, DiscreteSpec, EnvSpec, MultiDiscreteSpec
from seed_rl.types import EnvOutput

FRAME, A = (4, 4, 1), 3
PICTURES = EnvSpec(ArraySpec(FRAME, "uint8"), DiscreteSpec(A))
NUMBERS = EnvSpec(ArraySpec((5,), "float32"), ContinuousSpec((-1.0, 0.0), (1.0, 5.0)))
PLANES = EnvSpec(ArraySpec((4, 3), "uint16"), MultiDiscreteSpec((2, 3)))
SEVERAL = EnvSpec(
    {
        "right": ArraySpec((3, 5, 2), "uint8"),
        "left": ArraySpec(FRAME, "uint8"),
        "board": ArraySpec((4, 3), "uint16"),
        "speed": ArraySpec((), "float64"),
        "cells": ArraySpec((2, 3), "bool"),
    },
    MultiDiscreteSpec((2, 3)),
)
SPECS = {"pictures": PICTURES, "numbers": NUMBERS, "planes": PLANES, "several": SEVERAL}
SETTINGS = {
    "torso": "mlp",
    "hidden": 8,
    "mlp_layers": 1,
    "channels": (4, 6),
    "residual_blocks": 1,
    "lstm_units": 6,
    "previous_step_inputs": True,
    "clip_reward_input": False,
    "frame_stack": 3,
    "kernel_initializer": "glorot_uniform",
    "dtype": "float32",
}
VARIANTS = [
    {},
    {"lstm_units": 0},
    {"frame_stack": 1},
    {"frame_stack": 2, "previous_step_inputs": False},
    {"torso": "deep"},
    {"dtype": "mixed_bfloat16"},
    {"of": "numbers", "mlp_layers": 2},
    {"of": "planes", "torso": "deep"},
    {"of": "several"},
    {"of": "several", "torso": "deep", "frame_stack": 2, "dtype": "mixed_bfloat16"},
    {"of": "several", "torso": "auto", "lstm_units": 0, "previous_step_inputs": False},
]
REMEMBERING = [variant for variant in VARIANTS if variant.get("dtype") is None and variant != {"of": "numbers"}]


def spec_of(of):
    """One of `SPECS` by its name, or a spec itself."""
    return SPECS[of] if isinstance(of, str) else of


def make(seed=0, of="pictures", **settings):
    keras.utils.set_random_seed(seed)
    return Trunk(spec_of(of), **(SETTINGS | settings))


def random_tensor(rng, spec, leading):
    shape = (*leading, *spec.shape)
    if spec.dtype == "bool":
        return tf.constant(rng.random(shape) < 0.5)
    if spec.dtype.startswith("float"):
        return tf.constant(rng.normal(size=shape), spec.dtype)
    return tf.constant(rng.integers(0, np.iinfo(spec.dtype).max, shape, endpoint=True), spec.dtype)


def random_steps(length, batch, seed=0, done=0.25, of="pictures"):
    """`prev_action` and `env_output` of T steps of B environments."""
    rng = np.random.default_rng([length, batch, seed])
    spec = spec_of(of)
    tensors = {name: random_tensor(rng, tensor, (length, batch)) for name, tensor in spec.observation_tensors()}
    actions = np.stack([random_actions(spec.action, rng, batch) for _ in range(length)])
    return tf.constant(actions), EnvOutput(
        tf.constant(rng.normal(size=(length, batch)), tf.float32),
        tf.constant(rng.random((length, batch)) < done),
        tensors.get("", tensors),
    )


def cut(steps, begin, end=None):
    return tf.nest.map_structure(lambda x: x[begin:end], steps)


def assert_equal(actual, expected, dtype="float32"):
    """Of nests of tensors; frames exactly."""
    atol = 0.02 if dtype == "mixed_bfloat16" else 1e-6
    tf.nest.assert_same_structure(actual, expected)
    for a, e in zip(tf.nest.flatten(actual), tf.nest.flatten(expected), strict=True):
        assert a.dtype == e.dtype
        assert a.shape == e.shape
        np.testing.assert_allclose(np.asarray(a, np.float32), e, rtol=0, atol=0 if a.dtype == tf.uint8 else atol)


@pytest.mark.parametrize("variant", VARIANTS, ids=str)
def test_an_unroll_is_so_many_single_steps(variant):
    trunk, of = make(**variant), variant.get("of", "pictures")
    steps = random_steps(7, 3, of=of)
    assert np.any(steps[1].done[1:-1])
    _, start = trunk(*random_steps(2, 3, seed=1, done=0.0, of=of), trunk.initial_state(3))
    unrolled = trunk(*steps, start)
    outputs, state = [], start
    for t in range(7):
        output, state = trunk(*cut(steps, t, t + 1), state)
        outputs.append(output)
    assert unrolled[0].shape[:2] == (7, 3)
    assert_equal(unrolled, (tf.concat(outputs, 0), state), variant.get("dtype", "float32"))


@pytest.mark.parametrize("variant", REMEMBERING, ids=str)
def test_an_episode_starts_from_the_initial_state(variant):
    trunk, of = make(**variant), variant.get("of", "pictures")
    prev_action, env_output = random_steps(7, 2, of=of)
    done = tf.constant([[False, False]] * 3 + [[True, False]] + [[False, False]] * 3)
    steps = prev_action, env_output._replace(done=done)
    _, start = trunk(*random_steps(2, 2, seed=1, done=0.0, of=of), trunk.initial_state(2))
    features, state = trunk(*steps, start)
    fresh, fresh_state = trunk(*cut(steps, 3), trunk.initial_state(2))
    assert fresh.shape[:2] == (4, 2)
    first, second = (tf.nest.map_structure(lambda x, b=b: x[:, b], (features[3:], fresh)) for b in (0, 1))
    assert_equal(*first)
    assert_equal(*(tf.nest.map_structure(lambda x: x[0], nest) for nest in (state, fresh_state)))
    assert np.any(second[0][0] != second[1][0]), "the other environment goes on with what it remembers"


@pytest.mark.parametrize("variant", REMEMBERING, ids=str)
def test_the_state_is_reset_before_the_first_step(variant):
    trunk, of = make(**variant), variant.get("of", "pictures")
    prev_action, env_output = random_steps(3, 2, done=0.0, of=of)
    _, start = trunk(*random_steps(2, 2, seed=1, done=0.0, of=of), trunk.initial_state(2))
    begins = env_output._replace(done=tf.constant([[True] * 2] + [[False] * 2] * 2))
    assert_equal(trunk(prev_action, begins, start), trunk(prev_action, env_output, trunk.initial_state(2)))


def test_the_initial_state_is_zero_frames_and_a_zero_core():
    state = make(frame_stack=3, dtype="mixed_bfloat16").initial_state(5)
    (frames,) = state.frames
    assert frames.dtype == tf.uint8
    assert frames.shape == (5, 4, 4, 2)
    assert [(x.shape, x.dtype) for x in state.core] == [((5, 6), tf.float32)] * 2
    assert not any(np.any(x) for x in tf.nest.flatten(state))
    assert make(frame_stack=1, lstm_units=0).initial_state(5) == ((), ())
    for of in ("numbers", "planes"):
        assert make(of=of, lstm_units=0).initial_state(5) == ((), ()), "only pictures are stacked"
    assert [frames.shape for frames in make(of="several").initial_state(5).frames] == [(5, 4, 4, 2), (5, 3, 5, 4)]


def features_of(trunk, reward=0.5, prev_action=1):
    """The features of one step with these, everything else being the same."""
    _, env_output = random_steps(1, 1)
    env_output = env_output._replace(reward=tf.fill([1, 1], reward))
    return trunk(tf.fill([1, 1], prev_action), env_output, trunk.initial_state(1))[0].numpy()


@pytest.mark.parametrize("lstm_units", [0, 6])
@pytest.mark.parametrize("clip", [False, True])
def test_the_reward_input_is_clipped_if_asked(clip, lstm_units):
    trunk = make(clip_reward_input=clip, lstm_units=lstm_units)
    assert np.array_equal(features_of(trunk, 1.0), features_of(trunk, 5.0)) == clip
    assert np.array_equal(features_of(trunk, -1.0), features_of(trunk, -5.0)) == clip
    for low, high in ((-1.0, -0.5), (-0.5, 0.5), (0.5, 1.0)):
        assert np.any(features_of(trunk, low) != features_of(trunk, high))


def test_behind_the_torso_stand_the_reward_and_the_one_hot_previous_action():
    trunk = make(lstm_units=0, clip_reward_input=False)
    features = features_of(trunk, reward=7.0, prev_action=2)[0, 0]
    assert features.shape == (8 + 1 + A,)
    assert np.any(features[:8])
    np.testing.assert_array_equal(features[8:], [7, 0, 0, 1])
    np.testing.assert_array_equal(features[:8], features_of(trunk, reward=-3.0, prev_action=0)[0, 0, :8])


@pytest.mark.parametrize("lstm_units", [0, 6])
def test_without_them_neither_is_read(lstm_units):
    trunk = make(lstm_units=lstm_units, previous_step_inputs=False)
    np.testing.assert_array_equal(features_of(trunk, 0.5, 1), features_of(trunk, -2.0, 0))


@pytest.mark.parametrize(("torso", "default"), [("shallow", 512), ("deep", 256), ("mlp", 256)])
def test_the_width_of_the_torso(torso, default):
    spec = EnvSpec(ArraySpec((36, 36, 1), "uint8"), DiscreteSpec(A))
    for hidden, width in ((0, default), (7, 7)):
        trunk = make(of=spec, torso=torso, hidden=hidden, lstm_units=0, previous_step_inputs=False)
        features, _ = trunk(*random_steps(1, 1, of=spec), trunk.initial_state(1))
        assert features.shape == (1, 1, width)


@pytest.mark.parametrize(
    ("spec", "torsos"),
    [
        (ArraySpec((36, 40, 1), "uint8"), {"auto": "shallow", "shallow": "shallow", "deep": "deep", "mlp": "mlp"}),
        (ArraySpec((36, 35, 1), "uint8"), {"auto": "mlp", "deep": "deep", "mlp": "mlp"}),
        (ArraySpec((72, 96), "uint16"), {"auto": "shallow", "shallow": "shallow", "deep": "deep", "mlp": "mlp"}),
        (ArraySpec((10, 7), "uint16"), {"auto": "mlp", "deep": "deep", "mlp": "mlp"}),
        (ArraySpec((36, 36), "uint8"), {"auto": "mlp", "shallow": "mlp", "deep": "mlp", "mlp": "mlp"}),
        (ArraySpec((36, 36, 3), "float32"), {"auto": "mlp", "shallow": "mlp", "deep": "mlp", "mlp": "mlp"}),
        (ArraySpec((36, 36, 3), "uint16"), {"auto": "mlp", "shallow": "mlp", "deep": "mlp", "mlp": "mlp"}),
        (ArraySpec((), "int32"), {"auto": "mlp", "shallow": "mlp", "deep": "mlp", "mlp": "mlp"}),
    ],
    ids=str,
)
def test_pictures_and_planes_go_where_they_are_wanted_and_all_else_through_dense_layers(spec, torsos):
    assert {wanted: torso_of(spec, wanted) for wanted in torsos} == torsos


@pytest.mark.parametrize(
    ("torso", "layers"),
    [
        ("auto", {"conv_0", "conv_1", "conv_2", "dense"}),
        ("shallow", {"conv_0", "conv_1", "conv_2", "dense"}),
        ("deep", {"stage_0", "stage_1", "stage_2", "dense"}),
        ("mlp", {"dense_0", "dense_1"}),
    ],
)
def test_each_torso_has_the_layers_that_are_asked_for(torso, layers):
    spec = EnvSpec({"a": ArraySpec((36, 36, 1), "uint8"), "b": ArraySpec((3,), "float32")}, DiscreteSpec(A))
    trunk = make(of=spec, torso=torso, lstm_units=0, mlp_layers=2, channels=(4, 6, 5), residual_blocks=3)
    trunk(*random_steps(1, 1, of=spec), trunk.initial_state(1))
    parts = [variable.path.split("/") for variable in trunk.variables]
    behind = {
        index: [part[part.index(index) + 1 :] for part in parts if index in part] for index in ("torso_0", "torso_1")
    }
    assert {part[0] for part in behind["torso_0"]} == layers
    assert {part[0] for part in behind["torso_1"]} == {"dense_0", "dense_1"}
    blocks = {part[1] for part in behind["torso_0"] if part[1].startswith("residual")}
    assert blocks == ({"residual_0", "residual_1", "residual_2"} if torso == "deep" else set())


class NewestPixel(keras.layers.Layer):
    """A torso of somebody's own: as many features as are asked for, all of them the newest frame's first pixel."""

    def __init__(self, units, kernel_initializer, dtype, name):
        super().__init__(dtype=dtype, name=name)
        self.units = units

    def call(self, frames):
        assert frames.dtype == tf.uint8
        return tf.repeat(tf.cast(frames[:, 0, 0, -1:], self.compute_dtype), self.units, axis=-1)


def test_a_torso_of_ones_own_sees_the_stacked_pictures_and_nothing_else():
    spec = EnvSpec({"a": ArraySpec((6, 5, 1), "uint8"), "b": ArraySpec((3,), "float32")}, DiscreteSpec(A))
    trunk = make(of=spec, torso=f"{__name__}:NewestPixel", lstm_units=0, frame_stack=3, hidden=7)
    steps = random_steps(4, 2, of=spec)
    features, _ = trunk(*steps, trunk.initial_state(2))
    newest = tf.cast(steps[1].observation["a"][:, :, 0, 0, :], tf.float32)
    np.testing.assert_array_equal(features[..., :7], np.repeat(newest, 7, axis=-1))
    parts = [variable.path.split("/") for variable in trunk.variables]
    assert all("torso_1" in part and "dense_0" in part for part in parts), "the numbers go through dense layers"


@pytest.mark.parametrize("path", ["no_such_module:Torso", f"{__name__}:Missing"])
def test_a_torso_that_is_not_there_is_named(path):
    with pytest.raises(ValueError, match=f"the torso {path} can't be used: "):
        make(torso=path)


def changed(tensor):
    return ~tensor if tensor.dtype == tf.bool else tensor + tf.ones_like(tensor)


@pytest.mark.parametrize("torso", ["deep", "mlp"])
def test_features_of_all_tensors_stand_side_by_side_in_the_order_of_their_names(torso):
    trunk = make(of="several", torso=torso, lstm_units=0)
    prev_action, env_output = random_steps(3, 2, of="several", done=0.0)
    state = trunk.initial_state(2)
    before = trunk(prev_action, env_output, state)[0].numpy()
    assert before.shape == (3, 2, 5 * 8 + 1 + 5)
    for index, name in enumerate(["board", "cells", "left", "right", "speed"]):
        observation = env_output.observation | {name: changed(env_output.observation[name])}
        after = trunk(prev_action, env_output._replace(observation=observation), state)[0].numpy()
        own = np.arange(before.shape[-1]) // 8 == index
        assert np.any(after[..., own] != before[..., own]), name
        np.testing.assert_array_equal(after[..., ~own], before[..., ~own], err_msg=name)


def test_each_picture_has_a_stack_of_its_own():
    trunk = make(of="several", frame_stack=3)
    prev_action, env_output = random_steps(4, 2, of="several", done=0.0)
    _, state = trunk(prev_action, env_output, trunk.initial_state(2))
    for frames, name in zip(state.frames, ("left", "right"), strict=True):
        last_two = tf.concat([env_output.observation[name][t] for t in (2, 3)], axis=-1)
        np.testing.assert_array_equal(frames, last_two, err_msg=name)


@pytest.mark.parametrize("of", ["numbers", "planes"])
def test_what_is_no_picture_is_not_remembered(of):
    trunk = make(of=of, lstm_units=0, previous_step_inputs=False)
    prev_action, env_output = random_steps(4, 2, of=of, done=0.0)
    together, _ = trunk(prev_action, env_output, trunk.initial_state(2))
    alone, _ = trunk(*cut((prev_action, env_output), 2), trunk.initial_state(2))
    np.testing.assert_allclose(together[2:], alone, rtol=0, atol=1e-6)


def test_previous_actions_of_every_kind_are_fed_as_features():
    for of, action, features in (
        ("pictures", 2, [0, 0, 1]),
        ("planes", [1, 0], [0, 1, 1, 0, 0]),
        ("numbers", [0.5, 5.0], [0.5, 1.0]),
    ):
        trunk = make(of=of, lstm_units=0)
        (prev_action, env_output), state = random_steps(1, 1, of=of), trunk.initial_state(1)
        behind = trunk(tf.constant([[action]], prev_action.dtype), env_output, state)[0].numpy()[0, 0, 8:]
        np.testing.assert_allclose(behind, [env_output.reward[0, 0], *features], rtol=1e-6, err_msg=of)


def random_planes(*leading):
    return np.random.default_rng(0).integers(0, 2**16, (*leading, 4, 3)).astype(np.uint16)


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("leading", [(), (2,), (2, 5)])
def test_planes_are_unpacked_as_by_numpy(leading, compiled):
    packed = random_planes(*leading)
    frames = tf.function(unpack_planes, jit_compile=compiled)(packed)
    assert frames.dtype == tf.uint8
    expected = np.unpackbits(packed[..., None].view(np.uint8), axis=-1, bitorder="little")
    assert expected.shape == (*leading, 4, 3, 16)
    assert 0 < expected.mean() < 1
    np.testing.assert_array_equal(frames, 255 * expected, strict=True)


def test_the_lowest_bit_is_the_first_plane():
    frames = unpack_planes(np.array([[1, 2, 0x8000]], np.uint16)).numpy()
    assert [np.flatnonzero(pixel).tolist() for pixel in frames[0]] == [[0], [1], [15]]


@pytest.mark.parametrize("torso", ["shallow", "deep", "mlp"])
def test_planes_are_seen_as_the_frames_that_they_unpack_to(torso):
    shape = (36, 37)
    packed = EnvSpec(ArraySpec(shape, "uint16"), DiscreteSpec(A))
    frames = EnvSpec(ArraySpec((*shape, 16), "uint8"), DiscreteSpec(A))
    prev_action, env_output = random_steps(2, 3, of=packed)
    bits = np.unpackbits(env_output.observation.numpy()[..., None].view(np.uint8), axis=-1, bitorder="little")
    features = []
    for spec, observation in ((packed, env_output.observation), (frames, tf.constant(255 * bits))):
        trunk = make(of=spec, torso=torso, frame_stack=1)
        output = env_output._replace(observation=observation)
        features.append(trunk(prev_action, output, trunk.initial_state(3))[0].numpy())
    assert np.std(features[0]) > 0.01
    np.testing.assert_array_equal(*features)


@pytest.mark.parametrize("lstm_units", [0, 6])
def test_mixed_bfloat16_keeps_float32_weights_and_core(lstm_units):
    trunk = make(dtype="mixed_bfloat16", lstm_units=lstm_units)
    features, state = trunk(*random_steps(2, 3), trunk.initial_state(3))
    assert features.dtype == tf.bfloat16
    assert {variable.dtype for variable in trunk.variables} == {"float32"}
    assert all(x.dtype == tf.float32 for x in state.core)
