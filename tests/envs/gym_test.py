"""Gymnasium's environments as a suite: each vectorization, each kind of space, and where episodes end."""

import cv2
import numpy as np
import pytest
from gymnasium import spaces

from seed_rl.envs.gym import Gym
from seed_rl.envs.pettingzoo import PettingZoo
from seed_rl.envs.registry import from_description
from seed_rl.envs.vector.frames import conversion
from seed_rl.envs.vector.steps import Steps
from seed_rl.specs import ArraySpec, ContinuousSpec, DiscreteSpec, MixedSpec, MultiDiscreteSpec
from tests.envs.suites_test import OWN, echo

# Where episodes end.


# Of environment `Counted`: episode, step in it, reward, done, last.
SAME_STEP = [(0, 1, 1, 0, 0), (1, 0, 2, 1, 0), (1, 1, 11, 0, 0), (1, 2, 12, 0, 0), (2, 0, 13, 1, 0), (2, 1, 21, 0, 0)]
STEP_LATE = [
    *((0, 1, 1, 0, 0), (0, 2, 2, 1, 1), (1, 0, 0, 1, 0)),
    *((1, 1, 11, 0, 0), (1, 2, 12, 0, 0), (1, 3, 13, 0, 1), (2, 0, 0, 1, 0)),
]


@pytest.mark.parametrize(
    ("name", "vectorization", "expected"),
    [
        ("Counted", "sync", SAME_STEP),
        ("Counted", "async", SAME_STEP),
        ("CountedBare", "sync", SAME_STEP),
        ("CountedNext", "vector_entry_point", STEP_LATE),
    ],
)
def test_episodes_end_as_the_mode_of_autoreset_says(make, name, vectorization, expected):
    steps = Steps(make(Gym(f"{OWN}:{name}-v0", vectorization=vectorization), 3))
    steps.reset(seed=1)
    for _ in range(2):
        steps.step(np.zeros(3, np.int32))  # the second ends the first episode, which the reset forgets
    observation = steps.reset(seed=5).observation
    assert observation.tolist() == [[5, 0, 0], [6, 0, 0], [7, 0, 0]]
    for step, row in enumerate(expected):
        before, copy = observation, observation.copy()
        reward, done, last, observation = steps.step(np.array([0, 1, step % 2], np.int32))
        np.testing.assert_array_equal(before, copy, err_msg="observations are never overwritten")
        np.testing.assert_array_equal(np.column_stack([observation[:, 1:], reward, done, last]), [row] * 3)
        assert observation[:, 0].tolist() == ([5, 6, 7] if row[0] == 0 else [-1] * 3), "others have no seed"


# Spaces.


SINGLE = {
    "bytes with a sign": (ArraySpec((2,), "int32"), lambda own: own),
    "large": (ArraySpec((2,), "float32"), lambda own: own),
    "choices": (ArraySpec((5,), "bool"), lambda own: [*(own[0] == np.arange(2)), *(own[1] == np.arange(4, 7))]),
    "channels first": (ArraySpec((20, 30, 2), "uint8"), lambda own: np.stack(own, axis=-1)),
    "gray": (ArraySpec((20, 30, 1), "uint8"), lambda own: own[..., None]),
    "board": (ArraySpec((7, 7), "uint8"), lambda own: own),
    "depth": (ArraySpec((20, 30), "int32"), lambda own: own),
}
NESTED = {
    "camera/left": (ArraySpec((2, 3, 1), "uint8"), lambda own: own["camera"]["left"]),
    "camera/right": (ArraySpec((2, 3, 1), "uint8"), lambda own: own["camera"]["right"]),
    "mode": (ArraySpec((3,), "bool"), lambda own: own["mode"] == np.arange(5, 8)),
    "pair/0": (ArraySpec((2,), "bool"), lambda own: own["pair"][0] == np.arange(2)),
    "pair/1": (ArraySpec((), "float32"), lambda own: np.float32(own["pair"][1])),
}
TUPLE = {
    "0": (ArraySpec((1, 2), "float16"), lambda own: own[0]),
    "1/0": (ArraySpec((4,), "bool"), lambda own: own[1][0] == np.arange(-1, 3)),
}


@pytest.mark.parametrize(
    ("config", "parts"),
    [
        (echo("nested"), NESTED),
        (echo("tuple"), TUPLE),
        *((echo(senses, frame_size=30), {"": part}) for senses, part in SINGLE.items()),  # no frame is larger
    ],
    ids=lambda value: value.options if isinstance(value, Gym) else "",  # one without the addresses of functions
)
def test_every_part_of_an_observation_is_named_by_its_path_and_has_a_form_that_can_be_sent(make, config, parts):
    assert dict(config.spec().observation_tensors()) == {name: spec for name, (spec, _) in parts.items()}
    env = make(config, 3)
    observation, _ = env.reset(seed=4)
    own_space = env.unwrapped.single_observation_space
    for name, (spec, sent) in parts.items():
        tensor = observation[name] if name else observation
        assert (tensor.dtype, tensor.shape) == (spec.dtype, (3, *spec.shape)), name
        assert tensor.flags.c_contiguous, name
        for index in range(3):
            own_space.seed(4 + index)
            np.testing.assert_array_equal(tensor[index], sent(own_space.sample()), err_msg=name)


@pytest.mark.parametrize(
    ("config", "spec"),
    [
        (echo("nested", keys=("mode", "camera/left")), "camera/left uint8[2, 3, 1], mode bool[3]"),
        (echo("nested", keys=("-camera", "-pair/1")), "mode bool[3], pair/0 bool[2]"),
        (echo("nested", keys=("camera", "-camera/left")), "camera/right uint8[2, 3, 1]"),
        (echo("text inside", keys=("-b",)), "a float32[1]"),  # the rest could not be sent
        (Gym(f"{OWN}:Masked-v0", keys=("-action_mask",)), "board bool[3]"),
    ],
    ids=str,
)
def test_keys_keep_parts_of_an_observation_or_drop_them(make, config, spec):
    assert str(config.spec()) == f"{spec}; action MultiDiscrete(2, 3)"
    assert set(make(config, 2).reset(seed=1)[0]) == {name for name, _ in config.spec().observation_tensors()}


def test_wrappers_are_applied_in_order_with_their_arguments(make):
    stack = ("gymnasium.wrappers:FrameStackObservation", {"stack_size": 3})
    config = Gym("CartPole-v1", wrappers=(stack, "gymnasium.wrappers:FlattenObservation"))
    assert from_description(config.describe()) == config
    env, plain = make(config, 2), make(Gym("CartPole-v1"), 2)
    np.testing.assert_array_equal(env.reset(seed=3)[0], np.tile(plain.reset(seed=3)[0], 3))


def test_modules_are_those_that_any_setting_names():
    config = Gym("one:Game-v0", options='{"env_id": "two:Game-v0"}', wrappers=("three:Wrapper", ("two:Wrapper", {})))
    assert config.modules == ("one", "two", "three")
    assert Gym("one:Game-v0", envpool=True).modules == Gym().modules == PettingZoo().modules == ()
    assert PettingZoo("meeting").modules == ("meeting",)


@pytest.mark.parametrize(
    ("senses", "settings", "shape"),
    [("wide", {"frame_size": 20}, (20, 20, 3)), ("stack", {"grayscale": True, "frame_size": 24}, (24, 24, 2))],
)
def test_frames_are_shrunk_to_the_means_of_areas(make, senses, settings, shape):
    config = echo(senses, **settings)
    assert config.spec().observation == ArraySpec(shape, "uint8")
    env = make(config, 2)
    frames, own = env.reset(seed=4)[0], env.unwrapped.single_observation_space
    for index in range(2):
        own.seed(4 + index)
        pictures = own.sample().reshape(-1, 40, 60, 3)
        if config.grayscale:
            pictures = [cv2.cvtColor(picture, cv2.COLOR_RGB2GRAY) for picture in pictures]
        expected = [cv2.resize(picture, shape[:2], interpolation=cv2.INTER_AREA) for picture in pictures]
        assert np.abs(np.dstack(expected).astype(int) - frames[index]).max() <= 1


def test_what_a_pool_says_about_itself_is_no_number_of_an_episode(make):
    env = make(Gym("CartPole-v1", envpool=True), 2)
    env.reset(seed=1)
    *_, info = env.step(np.zeros(2, np.int32))
    assert not info.keys() & {"elapsed_step", "env_id", "players"}


def test_frames_have_few_channels_and_two_longer_sides():
    boxes = (spaces.Box(0, 255, shape, np.uint8) for shape in ((16, 17, 18), (17, 17, 18), (40, 10, 3), (17, 18, 16)))
    assert [conversion(box, 8, False) is None for box in boxes] == [False, True, True, False]


# -0.1 and 0.7 lie between two float32 numbers; the nearest ones are outside of a space of doubles.
LOW, HIGH = (float(np.float32(-0.1)),) * 4, (float(np.float32(0.7)),) * 4
TREE = [[0, 3, 1, 0, 2.5], [0, 0, 0, 1, -2]], [[1, 1, 2.5, 6, 1, 0], [1, 1, -2, 3, 0, 1]]


@pytest.mark.parametrize(
    ("levers", "spec", "actions", "taken"),
    [
        ("table of choices", MultiDiscreteSpec((2, 3, 4, 5)), [[0] * 4, [1, 2, 3, 4]], [[1, -1, 0, 7], [2, 1, 3, 11]]),
        ("from three", DiscreteSpec(4), [0, 3], [[3], [6]]),
        ("bits", MultiDiscreteSpec((2, 2, 2)), [[0, 1, 1], [1, 0, 0]], [[0, 1, 1], [1, 0, 0]]),
        ("signed bytes", MultiDiscreteSpec((256, 256)), [[0, 255], [128, 7]], [[-128, 127], [0, -121]]),
        ("number", ContinuousSpec((-2.0,), (3.0,)), [[-2], [2.5]], [[-2], [2.5]]),
        ("matrix of doubles", ContinuousSpec(LOW, HIGH), [LOW, HIGH], [[-0.1] * 4, [0.7] * 4]),
        ("one value each", ContinuousSpec((-1.0,), (1.0,)), [[-1], [0.5]], [[-1, 2], [0.5, 2]]),
        ("one value", DiscreteSpec(1), [0, 0], [[1, 1], [1, 1]]),
        ("pair", MultiDiscreteSpec((2, 3)), [[0, 2], [1, 0]], [[0, 2], [1, 0]]),
        ("numbers", ContinuousSpec((-1, 0, -2), (1, 5, 3)), [[-1, 5, 0], [0, 1, 3]], [[-1, 5, 0], [0, 1, 3]]),
        ("tree", MixedSpec((1, 4, 2, 2), (-2.0,), (3.0,)), *TREE),
        ("tree, async", MixedSpec((1, 4, 2, 2), (-2.0,), (3.0,)), *TREE),
    ],
)
def test_actions_reach_the_environment_as_its_own(make, levers, spec, actions, taken):
    levers, _, vectorization = levers.partition(", ")
    config = echo(levers=levers, vectorization=vectorization or ("async" if levers == "number" else "sync"))
    assert config.spec().action == spec
    env = make(config, 2)
    env.reset(seed=1)
    env.step(np.array(actions, spec.tensor.dtype))
    np.testing.assert_allclose(env.unwrapped.render(), taken, rtol=1e-7)
