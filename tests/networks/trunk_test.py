"""The trunk: resets, unrolling and the inputs of the core, over kinds of observations and actions, torsos and cores."""

import dataclasses

import keras
import numpy as np
import pytest
import tensorflow as tf

from seed_rl.networks.config import TrunkConfig
from seed_rl.networks.trunk import Trunk, torso_of, unpack_planes
from seed_rl.specs import ArraySpec, CannotAct, ContinuousSpec, DiscreteSpec, EnvSpec
from tests.support import experience
from tests.support.experience import CHOICES

A = 3
IMAGES = EnvSpec(ArraySpec((4, 4, 1), "uint8"), DiscreteSpec(A))
NUMBERS = EnvSpec(experience.NUMBERS, ContinuousSpec((-1.0, 0.0), (1.0, 5.0)))
PLANES = EnvSpec(ArraySpec((4, 3), "uint16"), CHOICES)
SEVERAL = EnvSpec(experience.SEVERAL, CHOICES)
WORDS = EnvSpec({"frame": ArraySpec((4, 4, 3), "uint8"), "words": ArraySpec((5,), "uint16")}, DiscreteSpec(A))
SPECS = {"images": IMAGES, "words": WORDS, "numbers": NUMBERS, "planes": PLANES, "several": SEVERAL}
SETTINGS = TrunkConfig(
    torso="mlp",
    hidden=8,
    channels=(4, 6),
    residual_blocks=1,
    core="lstm",
    core_units=6,
    previous_step_inputs=True,
    frame_stack=3,
)


class LeakySum(keras.layers.Layer):
    """A custom core: s_t = s_{t-1} / 2 + the sum of the inputs, in every unit, and a count of steps."""

    def __init__(self, units, dtype, name):
        super().__init__(dtype=dtype, name=name, autocast=False)
        self.units = units

    def initial_state(self, batch_size):
        return {"sum": tf.zeros([batch_size, self.units]), "steps": tf.zeros([batch_size], tf.int32)}

    def build(self, *shapes):
        pass

    def call(self, inputs, done, state):
        outputs, total, steps = [], state["sum"], state["steps"]
        for t in range(inputs.shape[0]):
            total = tf.where(done[t][:, None], 0.0, 0.5 * total)
            total += tf.reduce_sum(tf.cast(inputs[t], tf.float32), axis=-1, keepdims=True)
            steps = tf.where(done[t], 0, steps) + 1
            outputs.append(total)
        return tf.cast(tf.stack(outputs), self.compute_dtype), {"sum": total, "steps": steps}


OWN_CORE = f"{__name__}:LeakySum"
VARIANTS = [
    {},
    {"core": "none"},
    {"torso": "deep", "frame_stack": 2, "previous_step_inputs": False},
    {"dtype": "mixed_bfloat16"},
    {"of": "numbers", "mlp_layers": 2},
    {"of": "planes", "torso": "deep"},
    {"of": "words"},
    {"of": "several", "torso": "deep", "frame_stack": 2, "core": OWN_CORE},
    {"of": "several", "torso": "auto", "core": "none", "previous_step_inputs": False},
]
REMEMBERING = [variant for variant in VARIANTS if variant.get("dtype") is None]


def spec_of(of):
    """One of `SPECS` by its name, or a spec itself."""
    return SPECS[of] if isinstance(of, str) else of


def make(seed=0, of="images", **settings):
    keras.utils.set_random_seed(seed)
    return Trunk(dataclasses.replace(SETTINGS, **settings), spec_of(of))


def random_steps(length, batch, seed=0, done=0.25, of="images"):
    return experience.random_steps(spec_of(of), length, batch, seed, done)


def cut(steps, begin, end=None):
    return tf.nest.map_structure(lambda x: x[begin:end], steps)


def assert_equal(actual, expected, dtype="float32"):
    """Compare nests of tensors, frames exactly."""
    atol = 0.02 if dtype == "mixed_bfloat16" else 1e-6
    tf.nest.assert_same_structure(actual, expected)
    for a, e in zip(tf.nest.flatten(actual), tf.nest.flatten(expected), strict=True):
        assert a.dtype == e.dtype
        assert a.shape == e.shape
        np.testing.assert_allclose(np.asarray(a, np.float32), e, rtol=0, atol=0 if a.dtype == tf.uint8 else atol)


@pytest.mark.parametrize("variant", VARIANTS, ids=str)
def test_an_unroll_equals_its_single_steps(variant):
    trunk, of = make(**variant), variant.get("of", "images")
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


@pytest.mark.parametrize(("variant", "step"), [({}, 0), *((variant, 3) for variant in REMEMBERING)], ids=str)
def test_an_episode_starts_from_the_initial_state_wherever_it_begins(variant, step):
    trunk, of = make(**variant), variant.get("of", "images")
    prev_action, env_output = random_steps(6, 2, done=0.0, of=of)
    done = np.zeros((6, 2), bool)
    done[step, 0] = True
    steps = prev_action, env_output._replace(done=tf.constant(done))
    _, start = trunk(*random_steps(2, 2, seed=1, done=0.0, of=of), trunk.initial_state(2))
    features, state = trunk(*steps, start)
    fresh, fresh_state = trunk(*cut(steps, step), trunk.initial_state(2))
    assert_equal(features[step:, 0], fresh[:, 0])
    assert_equal(*(tf.nest.map_structure(lambda x: x[0], nest) for nest in (state, fresh_state)))
    assert np.any(features[step, 1] != fresh[0, 1]), "the other environment's episode continues with its memory"


def test_the_initial_state_is_zero_frames_and_a_zero_core():
    state = make(frame_stack=3, dtype="mixed_bfloat16").initial_state(5)
    ((frames, seen),) = state.frames
    assert frames.dtype == tf.uint8
    assert frames.shape == (5, 4, 4, 2)
    assert seen.shape == (5,)
    assert [(x.shape, x.dtype) for x in state.core] == [((5, 6), tf.float32)] * 2
    assert not any(np.any(x) for x in tf.nest.flatten(state))
    assert make(frame_stack=1, core="none").initial_state(5) == ((), ())
    for of in ("numbers", "planes"):
        assert make(of=of, core="none").initial_state(5) == ((), ()), "only images are stacked"
    assert [frames.shape for frames, _ in make(of="several").initial_state(5).frames] == [(5, 4, 4, 2), (5, 3, 5, 4)]


def test_a_core_of_ones_own_gets_the_torsos_features_and_the_ends_of_episodes():
    with_core, without = (make(core=core, core_units=4) for core in (OWN_CORE, "none"))
    steps = random_steps(9, 3)
    assert np.any(steps[1].done[1:-1])
    start = with_core.initial_state(3)
    features, state = with_core(*steps, start._replace(core={"sum": tf.ones([3, 4]), "steps": tf.fill([3], 7)}))
    inputs, done = without(*steps, without.initial_state(3))[0].numpy().sum(-1), steps[1].done.numpy()
    total, count = np.ones(3), np.full(3, 7)
    for t in range(9):
        total = np.where(done[t], 0.0, total / 2) + inputs[t]
        count = np.where(done[t], 0, count) + 1
        np.testing.assert_allclose(features[t], np.repeat(total[:, None], 4, axis=1), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(state.core["sum"], features[-1], rtol=1e-6)
    np.testing.assert_array_equal(state.core["steps"], count)


def features_of(trunk, reward=0.5, prev_action=1):
    """The features of one step with these, everything else being the same."""
    _, env_output = random_steps(1, 1)
    env_output = env_output._replace(reward=tf.fill([1, 1], reward))
    return trunk(tf.fill([1, 1], prev_action), env_output, trunk.initial_state(1))[0].numpy()


@pytest.mark.parametrize("core", ["none", "lstm"])
@pytest.mark.parametrize("clip", [False, True])
def test_the_reward_input_is_clipped_if_asked(clip, core):
    trunk = make(clip_reward_input=clip, core=core)
    assert np.array_equal(features_of(trunk, 1.0), features_of(trunk, 5.0)) == clip
    assert np.array_equal(features_of(trunk, -1.0), features_of(trunk, -5.0)) == clip
    for low, high in ((-1.0, -0.5), (-0.5, 0.5), (0.5, 1.0)):
        assert np.any(features_of(trunk, low) != features_of(trunk, high))
    without = make(core=core, previous_step_inputs=False)
    np.testing.assert_array_equal(features_of(without, 0.5, 1), features_of(without, -2.0, 0))


@pytest.mark.parametrize("dtype", ["float32", "mixed_bfloat16"])
def test_behind_the_torso_stand_the_reward_and_the_features_of_the_previous_action(dtype):
    for of, action, features in (
        ("images", 2, [0, 0, 1]),
        ("planes", [1, 0], [0, 1, 1, 0, 0]),
        ("numbers", [0.5, 5.0], [0.5, 1.0]),
    ):
        trunk = make(of=of, core="none", dtype=dtype)
        (prev_action, env_output), state = random_steps(1, 1, of=of), trunk.initial_state(1)
        env_output = env_output._replace(reward=tf.constant([[7.0]]))
        result, _ = trunk(tf.constant([[action]], prev_action.dtype), env_output, state)
        assert result.dtype == (tf.float32 if dtype == "float32" else tf.bfloat16)
        result = np.asarray(result, np.float32)[0, 0]
        assert np.any(result[:8]), "the torso's"
        np.testing.assert_array_equal(result[8:], [7, *features], err_msg=of)


@pytest.mark.parametrize(
    ("spec", "torsos"),
    [
        (ArraySpec((36, 40, 1), "uint8"), {"auto": "shallow", "shallow": "shallow", "deep": "deep", "mlp": "mlp"}),
        (ArraySpec((36, 35, 1), "uint8"), {"auto": "mlp", "deep": "deep", "mlp": "mlp"}),
        (ArraySpec((72, 96), "uint16"), {"auto": "shallow", "shallow": "shallow", "deep": "deep", "mlp": "mlp"}),
        (ArraySpec((10, 7), "uint16"), {"auto": "mlp", "deep": "deep", "mlp": "mlp"}),
        (ArraySpec((36, 36), "uint8"), {"auto": "mlp", "shallow": "mlp", "deep": "mlp", "mlp": "mlp"}),
        (ArraySpec((36, 36, 3), "float32"), {"auto": "mlp", "shallow": "shallow", "deep": "deep", "mlp": "mlp"}),
        (ArraySpec((3, 3, 2), "float32"), {"auto": "mlp", "shallow": "mlp", "deep": "deep", "mlp": "mlp"}),
        (ArraySpec((), "int32"), {"auto": "mlp", "shallow": "mlp", "deep": "mlp", "mlp": "mlp"}),
    ],
    ids=str,
)
def test_each_observation_goes_through_the_torso_made_for_its_kind(spec, torsos):
    assert {wanted: torso_of(spec, TrunkConfig(torso=wanted)) for wanted in torsos} == torsos


CONVOLUTIONS = [(8, 8, 2, 32), (4, 4, 32, 64), (3, 3, 64, 64), (64, 7)]
STAGES = [(3, 3, 2, 4), (3, 3, 4, 4), (3, 3, 4, 4), (3, 3, 4, 6), (3, 3, 6, 6), (3, 3, 6, 6), (9 * 9 * 6, 7)]
DENSE = [(3, 7), (7, 7)]


@pytest.mark.parametrize(
    ("torso", "kernels"),
    [
        ("auto", [*CONVOLUTIONS, *DENSE]),
        ("shallow", [*CONVOLUTIONS, *DENSE]),
        ("deep", [*STAGES, *DENSE]),
        ("mlp", [(36 * 36 * 2, 7), (7, 7), *DENSE]),
    ],
)
def test_each_torso_has_the_layers_and_sizes_of_the_settings(torso, kernels):
    spec = EnvSpec({"a": ArraySpec((36, 36, 1), "uint8"), "b": ArraySpec((3,), "float32")}, DiscreteSpec(A))
    trunk = make(of=spec, torso=torso, hidden=7, core="none", mlp_layers=2, frame_stack=2)
    trunk(*random_steps(1, 1, of=spec), trunk.initial_state(1))
    assert [variable.shape for variable in trunk.variables if len(variable.shape) > 1] == kernels
    default = make(of=spec, torso=torso, hidden=0, core="none", previous_step_inputs=False)
    features, _ = default(*random_steps(1, 1, of=spec), default.initial_state(1))
    assert features.shape == (1, 1, 256 + (512 if torso in ("auto", "shallow") else 256))


class NewestPixel(keras.layers.Layer):
    """A custom torso: as many features as are asked for, all of them the newest frame's first pixel."""

    def __init__(self, units, kernel_initializer, dtype, name):
        super().__init__(dtype=dtype, name=name)
        self.units = units

    def call(self, frames):
        assert frames.dtype == tf.uint8
        return tf.repeat(tf.cast(frames[:, 0, 0, -1:], self.compute_dtype), self.units, axis=-1)


def test_a_torso_of_ones_own_sees_the_stacked_images_and_nothing_else():
    spec = EnvSpec({"a": ArraySpec((6, 5, 1), "uint8"), "b": ArraySpec((3,), "float32")}, DiscreteSpec(A))
    trunk = make(of=spec, torso=f"{__name__}:NewestPixel", core="none", frame_stack=3, hidden=7)
    steps = random_steps(4, 2, of=spec)
    features, _ = trunk(*steps, trunk.initial_state(2))
    newest = tf.cast(steps[1].observation["a"][:, :, 0, 0, :], tf.float32)
    np.testing.assert_array_equal(features[..., :7], np.repeat(newest, 7, axis=-1))
    assert [variable.shape for variable in trunk.variables] == [(3, 7), (7,)], "the numbers go through a dense layer"


class Pixels(keras.layers.Layer):
    """A custom torso that returns the stacked images."""

    def __init__(self, units, kernel_initializer, dtype, name):
        super().__init__(dtype="float32", name=name, autocast=False)

    def call(self, frames):
        return tf.reshape(frames, [frames.shape[0], -1])


@pytest.mark.parametrize("dtype", ["float32", "mixed_bfloat16"])
def test_each_pixel_is_standardised_by_statistics_of_its_own(dtype):
    settings = {"core": "none", "frame_stack": 2, "previous_step_inputs": False, "observation_norm": True}
    trunk = make(torso=f"{__name__}:Pixels", dtype=dtype, **settings)
    prev_action, env_output = random_steps(6, 5)
    for _ in range(2):
        trunk.update(trunk.moments(env_output), 30)
    features, _ = trunk(prev_action, env_output, trunk.initial_state(5))
    newest = tf.reshape(features, [30, 16, 2])[..., -1].numpy() / 255
    tolerance = 1e-3 if dtype == "float32" else 1e-2
    np.testing.assert_allclose(newest.mean(axis=0), 0, atol=tolerance)
    np.testing.assert_allclose(newest.std(axis=0), 1, atol=tolerance)
    first = tf.reshape(features, [6, 5, 16, 2])[0, ..., 0]
    assert not np.any(first), "an absent frame is zero"


@pytest.mark.parametrize("observation_norm", [False, True])
def test_a_torso_sees_a_board_as_an_image(observation_norm):
    of = EnvSpec(ArraySpec((6, 7, 2), "int64"), DiscreteSpec(A))
    trunk = make(of=of, torso=f"{__name__}:Pixels", core="none", observation_norm=observation_norm)
    prev_action, env_output = random_steps(6, 5, of=of)
    for _ in range(2):
        trunk.update(trunk.moments(env_output), 30)
    features, _ = trunk(prev_action, env_output, trunk.initial_state(5))
    if observation_norm:
        np.testing.assert_allclose(features.numpy()[..., :84].std(axis=(0, 1)), 255, rtol=1e-3)
    else:
        np.testing.assert_array_equal(features[..., :84], 255 * tf.reshape(env_output.observation, [6, 5, 84]))


IMAGE = ArraySpec((36, 36, 1), "uint8")
TAKES_IMAGES = r"torso takes images, .* or uint16 .* of bit planes, got "
TOO_SMALL = r"the shallow torso needs frames of at least 36 x 36, got "


@pytest.mark.parametrize(
    ("torso", "observation", "message"),
    [
        (
            "shallow",
            ArraySpec((4,), "float32"),
            rf"the shallow {TAKES_IMAGES}observation float32\[4\]; action .*; TrunkConfig.torso = 'mlp' takes anything",
        ),
        (
            "deep",
            {"a": ArraySpec((2,), "bool"), "b": ArraySpec((), "int64")},
            rf"the deep {TAKES_IMAGES}a bool\[2\], b int64\[\]; action",
        ),
        ("shallow", ArraySpec((20, 36, 1), "uint8"), rf"{TOO_SMALL}observation uint8\[20, 36, 1\]"),
        (
            "shallow",
            {"a": IMAGE, "b": ArraySpec((36, 35), "uint16")},
            rf"{TOO_SMALL}a uint8\[36, 36, 1\], b uint16\[36, 35\]",
        ),
    ],
    ids=str,
)
def test_observations_that_a_torso_cannot_take_are_named(torso, observation, message):
    with pytest.raises(CannotAct, match=message):
        make(of=EnvSpec(observation, DiscreteSpec(2)), torso=torso)


def changed(tensor):
    return ~tensor if tensor.dtype == tf.bool else tensor + tf.ones_like(tensor)


@pytest.mark.parametrize("torso", ["deep", "mlp"])
def test_features_of_all_tensors_stand_side_by_side_in_the_order_of_their_names(torso):
    trunk = make(of="several", torso=torso, core="none")
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


def test_each_image_has_a_stack_of_its_own_and_nothing_else_is_remembered():
    trunk = make(of="several", frame_stack=3)
    prev_action, env_output = random_steps(4, 2, of="several", done=0.0)
    _, state = trunk(prev_action, env_output, trunk.initial_state(2))
    for (frames, seen), name in zip(state.frames, ("left", "right"), strict=True):
        assert seen.numpy().tolist() == [2, 2]
        last_two = tf.concat([env_output.observation[name][t] for t in (2, 3)], axis=-1)
        np.testing.assert_array_equal(frames, last_two, err_msg=name)
    for of in ("numbers", "planes"):
        trunk, steps = make(of=of, core="none", previous_step_inputs=False), random_steps(4, 2, of=of, done=0.0)
        together, _ = trunk(*steps, trunk.initial_state(2))
        alone, _ = trunk(*cut(steps, 2), trunk.initial_state(2))
        np.testing.assert_allclose(together[2:], alone, rtol=0, atol=1e-6)


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("leading", [(), (2, 5)])
def test_planes_are_unpacked_as_by_numpy(leading, compiled):
    packed = np.random.default_rng(0).integers(0, 2**16, (*leading, 4, 3)).astype(np.uint16)
    frames = tf.function(unpack_planes, jit_compile=compiled, autograph=False)(packed)
    assert frames.dtype == tf.uint8
    expected = np.unpackbits(packed[..., None].view(np.uint8), axis=-1, bitorder="little")
    assert expected.shape == (*leading, 4, 3, 16)
    assert 0 < expected.mean() < 1
    np.testing.assert_array_equal(frames, 255 * expected, strict=True)
