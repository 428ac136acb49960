import types

import numpy as np
import pytest
from gymnasium import spaces

from seed_rl.envs import registry
from seed_rl.envs.atari import Atari
from seed_rl.envs.base import spec_of
from seed_rl.envs.catch import Catch
from seed_rl.envs.conformance import check_suite
from seed_rl.specs import EnvDescription
from tests.support.counting import Counting


@pytest.mark.parametrize(
    "config",
    [
        Atari(game="pong", max_episode_frames=200),
        Atari(game="breakout", sticky_actions=0.25, full_action_set=True, max_episode_frames=200, threads=2),
        Catch(rows=6, columns=4),
    ],
    ids=["pong", "breakout", "catch"],
)
def test_conformance(config):
    check_suite(config, steps=120)


@pytest.mark.parametrize(
    ("observation", "action", "message"),
    [
        (spaces.Discrete(5), spaces.Discrete(2), r"Box or a Dict of them \(FlatVectorEnv makes .*, got Discrete\(5\)"),
        (spaces.Box(0, 1, (3,), np.int8), spaces.Discrete(2), "dtype must be one of bool, .*, got 'int8'"),
        (spaces.Box(0, 1, (3,)), spaces.Discrete(2, start=1), "start at 0, .*, got Discrete"),
        (spaces.Box(0, 1, (3,)), spaces.Box(0, np.inf, (2,)), "actions can't be those of Box.*: .* finite bounds"),
    ],
    ids=str,
)
def test_spaces_that_cannot_be_sent_are_named(observation, action, message):
    env = types.SimpleNamespace(single_observation_space=observation, single_action_space=action)
    with pytest.raises(registry.CannotBuild, match=message):
        spec_of(env)


def test_counting_counts():
    env = Counting(shortest_episode=2).make(2)  # episodes of 2 and 3 steps
    observation, _ = env.reset(seed=10)
    assert observation.tolist() == [[10, 0, 0, 0], [11, 0, 0, 0]]
    for _ in range(3):
        observation, reward, terminated, truncated, _ = env.step(np.array([5, 6]))
    assert observation.tolist() == [[10, 1, 1, 3], [11, 1, 0, 3]]
    assert reward.tolist() == [5, 6]
    assert terminated.tolist() == [False, True]
    assert not truncated.any()


def test_catch_can_be_won_and_lost():
    env = Catch(rows=4, columns=3).make(200)
    board, _ = env.reset(seed=0)
    ball = board[:, 0, :, 0].argmax(axis=1)
    paddle = np.full(200, 1)
    for _ in range(3):
        action = np.clip(ball - paddle, -1, 1)
        paddle += action
        _, reward, terminated, _, _ = env.step(action + 1)
    assert terminated.all()
    assert (reward == 1).all()
    for _ in range(3):
        _, reward, terminated, _, _ = env.step(np.ones(200, int))
    assert terminated.all()
    assert set(reward) == {-1, 1}


def test_atari_episodes_are_cut_at_the_frame_cap():
    env = Atari(game="pong", max_episode_frames=80, max_noops=0).make(1)
    env.reset(seed=0)
    lengths, length = [], 0
    for _ in range(100):
        _, _, terminated, truncated, _ = env.step(np.zeros(1, np.int32))
        assert not terminated.any()
        length += 1
        if truncated[0]:
            lengths.append(length)
            length = 0
    assert len(lengths) >= 2
    assert all(abs(4 * n - 80) <= 4 for n in lengths)


def test_atari_frames_are_single_and_gray():
    env = Atari(game="pong").make(2)
    observation, _ = env.reset(seed=0)
    assert observation.shape == (2, 84, 84, 1)
    assert observation.dtype == np.uint8
    assert observation.std() > 5


def test_atari_action_sets():
    assert Atari(game="pong").spec().action.n == 6
    assert Atari(game="pong", full_action_set=True).spec().action.n == 18


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"game": "Pong"}, "snake_case name of one of 1.. ROMs, got 'Pong'"),
        ({"sticky_actions": 1.5}, r"sticky_actions must be in \[0, 1\], got 1.5"),
        ({"frame_skip": 0}, "frame_skip must be at least 1, got 0"),
        ({"frame_skip": "4"}, "frame_skip must be int, got '4'"),
        ({"frameskip": 4}, "suite 'atari' has no option frameskip"),
    ],
)
def test_impossible_options_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        registry.from_description(EnvDescription("atari", options))


def test_an_unknown_suite_names_the_known_ones():
    with pytest.raises(ValueError, match="no environment suite named 'atarri'.*atari, catch, counting"):
        registry.suite("atarri")
