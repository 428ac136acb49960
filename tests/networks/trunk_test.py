"""The trunk: resets, unrolling and the inputs of the core, over its torsos, with and without frame stack and LSTM."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from seed_rl.networks.trunk import Trunk
from seed_rl.types import EnvOutput

FRAME, A = (4, 4, 1), 3
SETTINGS = {
    "torso": "mlp",
    "hidden": 8,
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
]
REMEMBERING = [variant for variant in VARIANTS if variant.get("dtype") is None]


def make(seed=0, frame_shape=FRAME, **settings):
    keras.utils.set_random_seed(seed)
    return Trunk(frame_shape, A, **(SETTINGS | settings))


def random_steps(length, batch, seed=0, done=0.25, frame_shape=FRAME):
    """`prev_action` and `env_output` of T steps of B environments."""
    rng = np.random.default_rng([length, batch, seed])
    return tf.constant(rng.integers(0, A, (length, batch)), tf.int32), EnvOutput(
        tf.constant(rng.normal(size=(length, batch)), tf.float32),
        tf.constant(rng.random((length, batch)) < done),
        tf.constant(rng.integers(0, 256, (length, batch, *frame_shape)), tf.uint8),
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
    trunk, steps = make(**variant), random_steps(7, 3)
    assert np.any(steps[1].done[1:-1])
    _, start = trunk(*random_steps(2, 3, seed=1, done=0.0), trunk.initial_state(3))
    unrolled = trunk(*steps, start)
    outputs, state = [], start
    for t in range(7):
        output, state = trunk(*cut(steps, t, t + 1), state)
        outputs.append(output)
    assert unrolled[0].shape[:2] == (7, 3)
    assert_equal(unrolled, (tf.concat(outputs, 0), state), variant.get("dtype", "float32"))


@pytest.mark.parametrize("variant", REMEMBERING, ids=str)
def test_an_episode_starts_from_the_initial_state(variant):
    trunk, (prev_action, env_output) = make(**variant), random_steps(7, 2)
    done = tf.constant([[False, False]] * 3 + [[True, False]] + [[False, False]] * 3)
    steps = prev_action, env_output._replace(done=done)
    _, start = trunk(*random_steps(2, 2, seed=1, done=0.0), trunk.initial_state(2))
    features, state = trunk(*steps, start)
    fresh, fresh_state = trunk(*cut(steps, 3), trunk.initial_state(2))
    assert fresh.shape[:2] == (4, 2)
    first, second = (tf.nest.map_structure(lambda x, b=b: x[:, b], (features[3:], fresh)) for b in (0, 1))
    assert_equal(*first)
    assert_equal(*(tf.nest.map_structure(lambda x: x[0], nest) for nest in (state, fresh_state)))
    assert np.any(second[0][0] != second[1][0]), "the other environment goes on with what it remembers"


@pytest.mark.parametrize("variant", REMEMBERING, ids=str)
def test_the_state_is_reset_before_the_first_step(variant):
    trunk, (prev_action, env_output) = make(**variant), random_steps(3, 2, done=0.0)
    _, start = trunk(*random_steps(2, 2, seed=1, done=0.0), trunk.initial_state(2))
    begins = env_output._replace(done=tf.constant([[True] * 2] + [[False] * 2] * 2))
    assert_equal(trunk(prev_action, begins, start), trunk(prev_action, env_output, trunk.initial_state(2)))


def test_the_initial_state_is_zero_frames_and_a_zero_core():
    state = make(frame_stack=3, dtype="mixed_bfloat16").initial_state(5)
    assert state.frames.dtype == tf.uint8
    assert state.frames.shape == (5, 4, 4, 2)
    assert [(x.shape, x.dtype) for x in state.core] == [((5, 6), tf.float32)] * 2
    assert not any(np.any(x) for x in tf.nest.flatten(state))
    assert make(frame_stack=1, lstm_units=0).initial_state(5) == ((), ())


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
    frame_shape = (36, 36, 1)
    for hidden, width in ((0, default), (7, 7)):
        trunk = make(frame_shape=frame_shape, torso=torso, hidden=hidden, lstm_units=0, previous_step_inputs=False)
        features, _ = trunk(*random_steps(1, 1, frame_shape=frame_shape), trunk.initial_state(1))
        assert features.shape == (1, 1, width)


@pytest.mark.parametrize("lstm_units", [0, 6])
def test_mixed_bfloat16_keeps_float32_weights_and_core(lstm_units):
    trunk = make(dtype="mixed_bfloat16", lstm_units=lstm_units)
    features, state = trunk(*random_steps(2, 3), trunk.initial_state(3))
    assert features.dtype == tf.bfloat16
    assert {variable.dtype for variable in trunk.variables} == {"float32"}
    assert all(x.dtype == tf.float32 for x in state.core)
