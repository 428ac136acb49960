"""The trunk: resets, unrolling and the inputs of the core, over kinds of observations and actions, torsos and cores."""

import dataclasses

import keras
import numpy as np
import pytest
import tensorflow as tf

from seed_rl.networks import trunk as trunk_module
from seed_rl.networks.config import TrunkConfig
from seed_rl.networks.layers import block_of, torso_of
from seed_rl.networks.trunk import Trunk
from seed_rl.specs import ArraySpec, CannotAct, ContinuousSpec, DiscreteSpec, EnvSpec
from tests.support import experience
from tests.support.experience import CHOICES

A = 3
IMAGES = EnvSpec(ArraySpec((4, 4, 1), "uint8"), DiscreteSpec(A))
NUMBERS = EnvSpec(experience.NUMBERS, ContinuousSpec((-1.0, 0.0), (1.0, 5.0)))
PLANES = EnvSpec(ArraySpec((4, 3), "uint16"), CHOICES)
SEVERAL = EnvSpec(experience.SEVERAL, CHOICES)
WORDS = EnvSpec(ArraySpec((5,), "uint16"), DiscreteSpec(A))
SIZES = {"hidden": 8, "channels": (4, 6), "residual_blocks": 1, "core_units": 6, "frame_stack": 3}
SETTINGS = TrunkConfig(torso="mlp", core="lstm", previous_step_inputs=True, **SIZES)


class LeakySum(keras.layers.Layer):
    """A custom core: s_t = s_{t-1} / 2 + the sum of the inputs, in every unit."""

    def __init__(self, units, dtype, name):
        super().__init__(dtype=dtype, name=name, autocast=False)
        self.units = units

    def initial_state(self, batch_size):
        return {"sum": tf.zeros([batch_size, self.units])}

    def build(self, *shapes):
        pass

    def call(self, inputs, done, state):
        outputs, total = [], state["sum"]
        for t in range(inputs.shape[0]):
            total = tf.where(done[t][:, None], 0.0, 0.5 * total)
            total += tf.reduce_sum(tf.cast(inputs[t], tf.float32), axis=-1, keepdims=True)
            outputs.append(total)
        return tf.cast(tf.stack(outputs), self.compute_dtype), {"sum": total}


OWN_CORE = f"{__name__}:LeakySum"
VARIANTS = [
    {"torso": "deep", "core": "none", "frame_stack": 2, "previous_step_inputs": False},
    {"dtype": "mixed_bfloat16"},
    {"of": NUMBERS, "mlp_layers": 2},
    {"of": PLANES, "torso": "deep"},
    {"of": WORDS},
    {"of": SEVERAL, "torso": "auto", "core": OWN_CORE},
]


def make(of=IMAGES, **settings):
    keras.utils.set_random_seed(0)
    return Trunk(dataclasses.replace(SETTINGS, **settings), of)


def random_steps(length, batch, seed=0, done=0.25, of=IMAGES):
    return experience.random_steps(of, length, batch, seed, done)


def cut(steps, begin, end=None):
    return tf.nest.map_structure(lambda x: x[begin:end], steps)


@pytest.mark.parametrize("variant", VARIANTS, ids=["deep", "bfloat16", "numbers", "planes", "words", "several"])
def test_an_unroll_equals_its_single_steps(variant):
    trunk, of = make(**variant), variant.get("of", IMAGES)
    steps = random_steps(5, 3, of=of)
    assert np.any(steps[1].done[1:-1])
    _, start = trunk(*random_steps(1, 3, seed=1, done=0.0, of=of), trunk.initial_state(3))
    unrolled = trunk(*steps, start)
    outputs, state = [], start
    for t in range(5):
        output, state = trunk(*cut(steps, t, t + 1), state)
        outputs.append(output)
    stepped = tf.concat(outputs, 0), state
    assert unrolled[0].shape[:2] == (5, 3)
    tf.nest.assert_same_structure(unrolled, stepped)
    atol = 0.02 if variant.get("dtype") else 1e-6
    for a, e in zip(tf.nest.flatten(unrolled), tf.nest.flatten(stepped), strict=True):
        assert (a.dtype, a.shape) == (e.dtype, e.shape)
        np.testing.assert_allclose(tf.cast(a, tf.float32), e, rtol=0, atol=0 if a.dtype == tf.uint8 else atol)


@pytest.mark.parametrize(
    ("of", "action", "clipped", "appended"),
    [
        (IMAGES, 2, False, [7, 0, 0, 1]),
        (PLANES, [1, 0], True, [1, 0, 1, 1, 0, 0]),
        (NUMBERS, [0.5, 5.0], False, [7, 0.5, 1.0]),
    ],
    ids=["images", "planes", "numbers"],
)
def test_behind_the_torso_stand_the_reward_and_the_features_of_the_previous_action(of, action, clipped, appended):
    trunk = make(of=of, core="none", dtype="mixed_bfloat16", clip_reward_input=clipped)
    (prev_action, env_output), state = random_steps(1, 1, of=of), trunk.initial_state(1)
    env_output = env_output._replace(reward=tf.constant([[7.0]]))
    result, _ = trunk(tf.constant([[action]], prev_action.dtype), env_output, state)
    assert result.dtype == tf.bfloat16
    result = np.asarray(result, np.float32)[0, 0]
    assert np.any(result[:8]), "the torso's"
    np.testing.assert_array_equal(result[8:], appended)


@pytest.mark.parametrize(
    ("spec", "torsos"),
    [
        (ArraySpec((36, 40, 1), "uint8"), {"auto": "shallow", "shallow": "shallow", "deep": "deep", "mlp": "mlp"}),
        (ArraySpec((36, 35, 1), "uint8"), {"auto": "mlp", "deep": "deep", "mlp": "mlp"}),
        (ArraySpec((72, 96), "uint16"), {"auto": "shallow", "shallow": "shallow", "deep": "deep", "mlp": "mlp"}),
        (ArraySpec((10, 7), "uint16"), {"auto": "mlp", "deep": "deep", "mlp": "mlp"}),
        (ArraySpec((36, 36, 3), "float32"), {"auto": "mlp", "shallow": "shallow", "deep": "deep", "mlp": "mlp"}),
        (ArraySpec((3, 3, 2), "float32"), {"auto": "mlp", "shallow": "mlp", "deep": "deep", "mlp": "mlp"}),
        (ArraySpec((), "int32"), {"auto": "mlp", "shallow": "mlp", "deep": "mlp", f"{__name__}:Pixels": "mlp"}),
    ],
    ids=str,
)
def test_each_observation_goes_through_the_torso_made_for_its_kind(spec, torsos):
    assert {wanted: torso_of(spec, TrunkConfig(torso=wanted)) for wanted in torsos} == torsos


class Pixels(keras.layers.Layer):
    """A custom torso that returns the pixels of the stacked images."""

    def __init__(self, units, kernel_initializer, dtype, name):
        super().__init__(dtype="float32", name=name, autocast=False)
        assert units == SETTINGS.hidden

    def call(self, frames):
        return tf.cast(tf.reshape(frames, [frames.shape[0], -1]), tf.float32)


@pytest.mark.parametrize(
    ("tensor", "observation_norm"),
    [(IMAGES.observation, True), (ArraySpec((6, 7, 2), "int64"), False), (ArraySpec((6, 7, 2), "int64"), True)],
    ids=["frames standardised", "a board", "a board standardised"],
)
def test_a_torso_sees_numbers_times_255_each_standardised_by_statistics_of_its_own(tensor, observation_norm):
    of, settings = EnvSpec(tensor, DiscreteSpec(A)), {"core": "none", "frame_stack": 2, "previous_step_inputs": False}
    trunk = make(of=of, torso=f"{__name__}:Pixels", observation_norm=observation_norm, **settings)
    prev_action, env_output = random_steps(6, 5, of=of)
    for _ in range(2):
        trunk.update(trunk.moments(env_output), 30)
    features = trunk(prev_action, env_output, trunk.initial_state(5))[0].numpy() / 255
    if tensor == IMAGES.observation:
        features = features.reshape(6, 5, 16, 2)
        assert not np.any(features[0, ..., 0]), "an absent frame is zero"
        features = features[..., 1]
    if observation_norm:
        np.testing.assert_allclose(features.mean(axis=(0, 1)), 0, atol=1e-3)
        np.testing.assert_allclose(features.std(axis=(0, 1)), 1, atol=1e-3)
    else:
        np.testing.assert_allclose(features, tf.reshape(env_output.observation, [6, 5, 84]), rtol=1e-6)


class Misshapen(Pixels):
    def call(self, frames):
        return frames


class Sizeless(Pixels):
    def __init__(self, name, dtype):
        super().__init__(name=name, dtype=dtype)


class NoTensor(LeakySum):
    def call(self, inputs, done, state):
        return None, state


class NoState(LeakySum):
    initial_state = None


class OutputsAlone(LeakySum):
    def call(self, inputs, done, state):
        return inputs


@pytest.mark.parametrize(
    ("observation", "role", "layer", "words"),
    [
        ({"a": ArraySpec((2,), "bool"), "b": ArraySpec((), "int64")}, "torso", "deep", "takes images"),
        (ArraySpec((36, 35), "uint16"), "torso", "shallow", "needs frames of at least 36 x 36"),
        (IMAGES.observation, "torso", f"{__name__}:Missing", "has no Missing"),
        (IMAGES.observation, "torso", f"{__name__}:Sizeless", "is called with units, kernel_initializer, dtype, name"),
        (IMAGES.observation, "torso", f"{__name__}:Misshapen", r"the shape \[1, F\], got the shape \[1, 4, 4, 3\]"),
        (IMAGES.observation, "core", f"{__name__}:NoTensor", r"the shape \[1, 1, F\], got NoneType"),
        (IMAGES.observation, "core", f"{__name__}:NoState", r"a method initial_state\(batch_size\)$"),
        (
            IMAGES.observation,
            "core",
            f"{__name__}:OutputsAlone",
            r"return \(features, state\), got float32\[1, 1, \d+\]$",
        ),
    ],
    ids=["no image", "too small", "missing", "other arguments", "misshapen", "no tensor", "no state", "outputs alone"],
)
def test_a_layer_that_does_not_fit_is_named(observation, role, layer, words):
    def features():
        trunk = make(of=EnvSpec(observation, DiscreteSpec(A)), **{role: layer})
        return trunk(*random_steps(1, 1), trunk.initial_state(1))

    with pytest.raises(CannotAct, match=f"{layer}.*{words}"):
        features()


def test_features_of_all_tensors_stand_side_by_side_in_the_order_of_their_names():
    trunk = make(of=SEVERAL, core="none")
    prev_action, env_output = random_steps(1, 2, of=SEVERAL, done=0.0)
    state = trunk.initial_state(2)
    before = trunk(prev_action, env_output, state)[0].numpy()
    assert before.shape == (1, 2, 5 * 8 + 1 + 5)
    for index, name in enumerate(["board", "cells", "left", "right", "speed"]):
        old = env_output.observation[name]
        observation = env_output.observation | {name: ~old if old.dtype == tf.bool else old + tf.ones_like(old)}
        after = trunk(prev_action, env_output._replace(observation=observation), state)[0].numpy()
        own = np.arange(before.shape[-1]) // 8 == index
        assert np.any(after[..., own] != before[..., own]), name
        np.testing.assert_array_equal(after[..., ~own], before[..., ~own], err_msg=name)


@pytest.mark.parametrize("channels", [1, 3])
def test_frames_in_blocks_give_the_same_features_and_gradients(channels, monkeypatch):
    """The weights are those of frames as they are."""
    of = EnvSpec(ArraySpec((16, 20, channels), "uint8"), DiscreteSpec(A))
    settings = {"torso": "shallow", "convolutions": ((4, 8, 4), (6, 2, 1)), "core": "none", "observation_norm": True}
    in_blocks = dataclasses.replace(SETTINGS, **settings, dtype="mixed_bfloat16")
    assert block_of(of.observation, in_blocks) == 4
    for other in ({"dtype": "float32"}, {"convolutions": ((4, 6, 4),)}, {"convolutions": ((4, 6, 3),)}):
        assert block_of(of.observation, dataclasses.replace(in_blocks, **other)) == 1

    steps, found = random_steps(5, 3, of=of), []
    for block in (1, 4):
        monkeypatch.setattr(trunk_module, "block_of", lambda *_, block=block: block)
        trunk = make(of, **settings)
        trunk(*steps, trunk.initial_state(3))
        for number, weight in enumerate(trunk.weights):
            weight.assign(0.1 * tf.random.stateless_normal(weight.shape, [number, 0]) ** 2)
        with tf.GradientTape() as tape:
            features, _ = trunk(*steps, trunk.initial_state(3))
            loss = tf.reduce_sum(tf.square(features))
        found.append([features, *tape.gradient(loss, trunk.trainable_weights)])
    for one, other in zip(*found, strict=True):
        assert np.any(one)
        np.testing.assert_allclose(one, other, atol=1e-6 * np.abs(one).max())
