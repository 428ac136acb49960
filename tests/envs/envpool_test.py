"""EnvPool's environments in the suite `gym`."""

import sys

import envpool
import numpy as np
import pytest

from seed_rl.envs.base import CannotBuild
from seed_rl.envs.conformance import check_suite
from seed_rl.envs.gym import Gym

PONG = '{"max_episode_steps": 10, "stack_num": 2, "img_height": 40, "img_width": 50}'


def pooled(name, options="{}", **settings):
    return Gym(name, envpool=True, options=options, **settings)


@pytest.mark.parametrize(
    ("config", "steps", "spec"),
    [
        (pooled("CartPole-v1", vectorization="async"), 80, "observation float32[4]; action Discrete(2)"),
        (pooled("Pong-v5", PONG), 25, "observation uint8[40, 50, 2]; action Discrete(6)"),
    ],
    ids=["CartPole", "Pong"],
)
def test_conformance(config, steps, spec):
    assert str(config.spec()) == spec
    check_suite(config, steps)


def test_an_environment_behaves_as_in_a_plain_pool_but_for_ends_one_step_late(make):
    env = make(pooled("CartPole-v1", '{"max_episode_steps": 20}'), 3)
    plain = envpool.make_gymnasium("CartPole-v1", num_envs=3, seed=7, max_episode_steps=20)
    observation, _ = env.reset(seed=7)
    np.testing.assert_array_equal(observation, plain.reset()[0])
    rng, ended, episodes = np.random.default_rng(0), np.zeros((2, 3), bool), np.zeros(2, int)
    for _ in range(150):
        before, copy = observation, observation.copy()
        actions = rng.integers(2, size=3).astype(np.int32)
        observation, reward, *ends, _ = env.step(actions)
        np.testing.assert_array_equal(before, copy, err_msg="observations are never overwritten")
        expected, expected_reward, terminated, truncated, _ = plain.step(actions)
        np.testing.assert_array_equal(observation, expected)
        np.testing.assert_array_equal(reward, expected_reward)
        np.testing.assert_array_equal(ends, ended)
        assert np.all(reward[ended.any(axis=0)] == 0), "the step that only resets has no reward"
        ended = np.array([terminated, truncated & ~terminated])
        episodes += ended.sum(axis=1)
    assert (episodes > 2).all(), "some of either kind"
    plain.close()


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("Nope-v1", "{}", r"EnvPool has no environment 'Nope-v1'; envpool.list_all_envs\(\) lists them"),
        ("CartPole-v1", '{"wheels": 4}', "CartPole-v1 can't be made by EnvPool: .* argument 'wheels'"),
        ("CartPole-v1", '{"render_mode": "ascii"}', "CartPole-v1 can't be made by EnvPool: render_mode must be one of"),
        ("Pong-v5", '{"frame_skip": "four"}', "Pong-v5 can't be made by EnvPool: .*incompatible"),
    ],
)
def test_environments_that_cannot_be_made_are_named(name, options, message):
    with pytest.raises(CannotBuild, match=message):
        pooled(name, options).make(2)


def test_without_envpool_it_says_how_to_install_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "envpool", None)
    with pytest.raises(CannotBuild, match=r"EnvPool is not installed here: pip install envpool"):
        pooled("CartPole-v1").make(1)
    Gym("CartPole-v1").make(1).close()
