"""Gymnasium's environments as a suite: each vectorization, each kind of space, and where episodes end."""

import dataclasses
import itertools

import cv2
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

from seed_rl.envs.base import CannotBuild
from seed_rl.envs.conformance import check_suite
from seed_rl.envs.gym import Gym
from seed_rl.envs.registry import from_description
from seed_rl.specs import ArraySpec, ContinuousSpec, DiscreteSpec, MultiDiscreteSpec

MODULE = "tests.support.registered_envs"


def echo(senses="flat", levers="choices", **settings):
    return Gym(f"{MODULE}:Echo-v0", options=f'{{"senses": "{senses}", "levers": "{levers}"}}', **settings)


@pytest.mark.parametrize(
    ("config", "steps"),
    [
        (Gym("CartPole-v1"), 80),
        (Gym("CartPole-v1", vectorization="vector_entry_point"), 80),
        (Gym("Pendulum-v1"), 210),
        (Gym("Blackjack-v1"), 20),
        (Gym("FrozenLake-v1", options='{"map_name": "8x8"}'), 120),
        (echo("nested", "table of choices"), 20),
        (echo("tuple", "from three"), 20),
        (echo("one part", levers="matrix of doubles"), 20),
        (echo("channels first"), 20),
        (echo("choices", levers="number"), 20),
    ],
    ids=str,
)
def test_conformance(config, steps):
    check_suite(config, steps)


def test_frames_per_step_is_the_action_repeat():
    assert [Gym().action_repeat, Gym(frames_per_step=4).action_repeat] == [1, 4]


def test_options_are_the_environments_own(make):
    heavy, light = (make(Gym("Pendulum-v1", options=f'{{"g": {g}}}'), 1) for g in (20.0, 0.0))
    assert heavy.reset(seed=0)[0].tolist() == light.reset(seed=0)[0].tolist()
    still = np.zeros((1, 1), np.float32)
    assert heavy.step(still)[0].tolist() != light.step(still)[0].tolist()


# Where episodes end.


def counted_step(steps, ends_late):
    """Environment `Counted` after this many steps: observation without seed, reward, terminated, truncated."""
    for episode in itertools.count():
        length = 2 + episode % 3
        if steps < length or (ends_late and steps == length):
            return [episode, steps], 10 * episode + steps, False, False
        # The reward of the last action comes with the end; or, if the end comes late, before it.
        if steps == length + ends_late:
            return [episode + 1, 0], 0 if ends_late else 10 * episode + length, episode % 2 == 0, episode % 2 == 1
        steps -= length + ends_late


@pytest.mark.parametrize(
    ("name", "vectorization", "ends_late"),
    [
        ("Counted", "sync", False),
        ("Counted", "async", False),
        ("CountedSame", "vector_entry_point", False),
        ("CountedNext", "vector_entry_point", True),
        ("CountedSilent", "vector_entry_point", True),
    ],
)
def test_the_end_of_an_episode_comes_with_the_first_observation_of_the_next(make, name, vectorization, ends_late):
    env = make(Gym(f"{MODULE}:{name}-v0", vectorization=vectorization), 3)
    assert env.metadata["autoreset_mode"] == AutoresetMode.SAME_STEP
    observation, _ = env.reset(seed=5)
    assert observation.tolist() == [[5, 0, 0], [6, 0, 0], [7, 0, 0]]
    episodes = set()
    for step in range(1, 21):
        before, copy = observation, observation.copy()
        observation, reward, terminated, truncated, _ = env.step(np.array([0, 1, step % 2], np.int32))
        np.testing.assert_array_equal(before, copy, err_msg="observations are never overwritten")
        expected, *rest = counted_step(step, ends_late)
        episodes.add(expected[0])
        assert observation[:, 1:].tolist() == [expected] * 3
        assert observation[:, 0].tolist() == ([5, 6, 7] if expected[0] == 0 else [-1] * 3), "others have no seed"
        assert [reward.tolist(), terminated.tolist(), truncated.tolist()] == [[value] * 3 for value in rest]
    assert max(episodes) >= 4


def test_a_reset_forgets_an_end_that_is_not_yet_reported(make):
    env = make(Gym(f"{MODULE}:CountedNext-v0", vectorization="vector_entry_point"), 1)
    action = np.zeros(1, np.int32)
    env.reset(seed=1)
    env.step(action)
    env.step(action)  # the last of the first episode
    assert env.reset(seed=2)[0].tolist() == [[2, 0, 0]]
    observation, reward, terminated, truncated, _ = env.step(action)
    assert (observation.tolist(), reward.tolist()) == ([[2, 0, 1]], [1])
    assert not (terminated | truncated).any()


# Spaces.


SINGLE = {
    "bytes with a sign": (ArraySpec((2,), "int32"), lambda own: own),
    "large": (ArraySpec((2,), "float32"), lambda own: own),
    "bits": (ArraySpec((3,), "bool"), lambda own: own),
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
ONE_PART = {"only": (ArraySpec((4,), "bool"), lambda own: own["only"] == np.arange(4))}


@pytest.mark.parametrize(
    ("config", "parts"),
    [
        (echo("nested"), NESTED),
        (echo("nested", vectorization="async"), NESTED),
        (echo("tuple"), TUPLE),
        (echo("one part"), ONE_PART),
        *((echo(senses), {"": part}) for senses, part in SINGLE.items()),
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
    ("keys", "names"),
    [
        (("mode", "camera/left"), ["camera/left", "mode"]),
        (("camera",), ["camera/left", "camera/right"]),
        (("-camera", "-pair/1"), ["mode", "pair/0"]),
        (("camera", "-camera/left"), ["camera/right"]),
    ],
)
def test_keys_keep_parts_of_an_observation_or_drop_them(make, keys, names):
    config = echo("nested", keys=keys)
    assert [name for name, _ in config.spec().observation_tensors()] == names
    assert sorted(make(config, 2).reset(seed=1)[0]) == names


def test_keys_keep_the_action_mask():
    config = Gym(f"{MODULE}:Masked-v0", options='{"place": "observation"}', keys=("board",))
    assert config.spec().has_mask
    assert not dataclasses.replace(config, keys=("-action_mask",)).spec().has_mask


def test_a_dropped_part_need_not_be_one_that_can_be_sent():
    assert str(echo("text inside", keys=("-b",)).spec()) == "a float32[1]; action MultiDiscrete(2, 3)"


def test_wrappers_are_applied_in_order_with_their_arguments(make):
    stack = ("gymnasium.wrappers:FrameStackObservation", {"stack_size": 3})
    config = Gym("CartPole-v1", wrappers=(stack, "gymnasium.wrappers:FlattenObservation"))
    assert from_description(config.describe()) == config
    assert config.modules == ("gymnasium.wrappers",)
    env, plain = make(config, 2), make(Gym("CartPole-v1"), 2)
    np.testing.assert_array_equal(env.reset(seed=3)[0], np.tile(plain.reset(seed=3)[0], 3))


@pytest.mark.parametrize(
    ("senses", "settings", "shape"),
    [
        ("wide", {"frame_size": 20}, (20, 20, 3)),
        ("wide", {"grayscale": True}, (40, 60, 1)),
        ("stack", {"grayscale": True, "frame_size": 24}, (24, 24, 2)),
        ("stack", {}, (40, 60, 6)),
        ("channels first", {"frame_size": 200}, (20, 30, 2)),
        ("board", {"frame_size": 3}, (7, 7)),
    ],
)
def test_frames_are_shrunk_to_the_means_of_areas(make, senses, settings, shape):
    config = echo(senses, **settings)
    assert config.spec().observation == ArraySpec(shape, "uint8")
    env = make(config, 2)
    frames, own = env.reset(seed=4)[0], env.unwrapped.single_observation_space
    for index in range(2):
        own.seed(4 + index)
        expected = own.sample()
        if senses in ("channels first", "stack"):
            expected = np.concatenate(expected, axis=-1) if senses == "stack" else np.moveaxis(expected, 0, -1)
        if settings.get("grayscale"):
            colours = [expected[..., n : n + 3] for n in range(0, expected.shape[-1], 3)]
            expected = np.stack([cv2.cvtColor(colour, cv2.COLOR_RGB2GRAY) for colour in colours], axis=-1)
        if expected.shape != shape:
            expected = cv2.resize(expected, shape[:2], interpolation=cv2.INTER_AREA).reshape(shape)
        assert np.abs(expected.astype(int) - frames[index]).max() <= 1


@pytest.mark.parametrize(
    ("levers", "spec", "actions", "taken"),
    [
        ("choices", MultiDiscreteSpec((2, 3)), [[0, 2], [1, 0]], [[0, 2], [1, 0]]),
        (
            "table of choices",
            MultiDiscreteSpec((2, 3, 4, 5)),
            [[0, 0, 0, 0], [1, 2, 3, 4]],
            [[1, -1, 0, 7], [2, 1, 3, 11]],
        ),
        ("from three", DiscreteSpec(4), [0, 3], [[3], [6]]),
        ("bits", MultiDiscreteSpec((2, 2, 2)), [[0, 1, 1], [1, 0, 0]], [[0, 1, 1], [1, 0, 0]]),
        ("bytes", MultiDiscreteSpec((256, 256)), [[0, 255], [128, 7]], [[0, 255], [128, 7]]),
        ("signed bytes", MultiDiscreteSpec((256, 256)), [[0, 255], [128, 7]], [[-128, 127], [0, -121]]),
        ("vector", ContinuousSpec((-1.0, 0.0), (1.0, 5.0)), [[-1, 5], [0.5, 0]], [[-1, 5], [0.5, 0]]),
        ("number", ContinuousSpec((-2.0,), (3.0,)), [[-2], [2.5]], [[-2], [2.5]]),
        ("one value each", ContinuousSpec((-1.0,), (1.0,)), [[-1], [0.5]], [[-1, 2], [0.5, 2]]),
        ("one value", DiscreteSpec(1), [0, 0], [[1, 1], [1, 1]]),
    ],
)
def test_actions_reach_the_environment_as_its_own(make, levers, spec, actions, taken):
    config = echo(levers=levers, vectorization="async" if levers in ("table of choices", "number") else "sync")
    assert config.spec().action == spec
    env = make(config, 2)
    env.reset(seed=1)
    env.step(np.array(actions, spec.tensor.dtype))
    np.testing.assert_array_equal(env.unwrapped.render(), taken)


def test_bounds_that_float32_rounds_outwards_are_kept(make):
    """-0.1 and 0.7 lie between two float32 numbers; the nearest ones may be outside of a space of doubles."""
    config = echo(levers="matrix of doubles")
    low, high = float(np.float32(-0.1)), float(np.float32(0.7))
    assert low < -0.1
    assert config.spec().action == ContinuousSpec((low,) * 4, (high,) * 4)
    env = make(config, 2)
    env.reset(seed=1)
    env.step(np.array([[low] * 4, [high, 0.25, low, high]], np.float32))
    np.testing.assert_allclose(env.unwrapped.render(), [[-0.1] * 4, [0.7, 0.25, -0.1, 0.7]], rtol=1e-7)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (echo("text"), r"Echo-v0: observations must be Box, .*, or Dict or Tuple of those, got Text\("),
        (echo("text inside"), r"observation b must be Box, .*, got Text: Gym.keys = \('-b',\) drops it"),
        (echo("nested", keys=("-lens",)), r"no observation 'lens' to keep or drop \(known: camera/left, camera/right"),
        (echo("one part", keys=("-only",)), "keys -only leave no observation"),
        (Gym(wrappers=("os:system",)), "os:system is not a subclass of gymnasium.Wrapper"),
        (Gym("MiniGrid-Empty-8x8-v0"), "Gym needs minigrid, which is not installed here: pip install minigrid"),
        (echo("same names"), r"parts of an observation need different paths, got Dict\("),
        (echo(levers="unbounded"), r"a Box of actions must be numeric and bounded on all sides, got Box\(-inf, 1.0"),
        (
            echo(levers="integers"),
            r"a Box of integer actions may have at most 1000 values each, got Box\(0, 1000, \(2,\)",
        ),
        (echo(levers="text"), r"actions must be Discrete, MultiDiscrete, MultiBinary or a bounded Box, got Text\("),
        (echo(levers="pair"), r"actions must be Discrete, .* got Tuple\(Discrete\(2\), Discrete\(3\)\)"),
        (
            Gym(f"{MODULE}:CountedDisabled-v0", vectorization="vector_entry_point"),
            "CountedDisabled-v0 must reset its environments itself, but has autoreset mode",
        ),
        (Gym("Nope-v1"), "Nope-v1 can't be made: Environment `Nope` doesn't exist"),
        (Gym("CartPole-v77"), "CartPole-v77 can't be made: .*version `v77` .* doesn't exist"),
        (Gym("two words"), "two words can't be made: Malformed environment ID"),
        (Gym("no_such_module:CartPole-v1"), "no_such_module:CartPole-v1 can't be made: No module named 'no_such"),
        (Gym("Pendulum-v1", vectorization="vector_entry_point"), "Pendulum-v1 can't be made: .* vector entry point"),
        (Gym(f"{MODULE}:CountedNext-v0"), "CountedNext-v0 can't be made: .* entry_point is not specified"),
        (Gym("CartPole-v1", options='{"wheels": 4}'), "CartPole-v1 can't be made: .* argument 'wheels'"),
        (Gym("CartPole-v1", options='{"wheels": 4}', vectorization="async"), "can't be made: .* argument 'wheels'"),
        (
            Gym("FrozenLake-v1", options='{"map_name": "3x3"}'),
            "FrozenLake-v1 can't be made: KeyError: '3x3' \\(frozen_lake.py, line",
        ),
    ],
    ids=str,
)
def test_environments_that_cannot_be_made_are_named(config, message):
    for build in (config.spec, lambda: config.make(2)):
        with pytest.raises(CannotBuild, match=message):
            build()


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"wrappers": (("a:B", 3),)}, r"must hold 'module:Class' or .*, got \('a:B', 3\)"),
        ({"wrappers": ("a:B", ("c:D", {"e": {1}}))}, r"got \('c:D', \{'e': \{1\}\}\)"),
        ({"wrappers": ("a:B",), "envpool": True}, r"Gym.wrappers must be \(\) with Gym.envpool"),
        ({"keys": (1,)}, "Gym.keys must be names of observations"),
        ({"id": "ALE/Pong-v5"}, "ALE/Pong-v5 is a game of Atari, as in --gin_file=atari/vtrace_fast"),
    ],
)
def test_settings_that_cannot_be_are_named(settings, sentence):
    with pytest.raises(ValueError, match=sentence):
        Gym(**settings)
