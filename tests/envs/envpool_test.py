"""EnvPool's environments in the suite `gym`."""

import sys

import envpool
import numpy as np
import pytest

from seed_rl.envs.base import CannotBuild
from seed_rl.envs.conformance import check_suite
from seed_rl.envs.gym import Gym


def pooled(name, options="{}", **settings):
    return Gym(name, envpool=True, options=options, **settings)


@pytest.mark.parametrize(
    ("config", "steps"),
    [
        (pooled("CartPole-v1"), 80),
        (pooled("CartPole-v1", '{"num_threads": 1}', vectorization="async"), 80),  # which makes no difference
        (pooled("Pendulum-v1"), 210),
        (pooled("MiniGrid-Empty-Random-5x5-v0"), 120),
        (pooled("Ant-v4", '{"max_episode_steps": 30}'), 70),
        (pooled("Pong-v5", '{"max_episode_steps": 30}'), 70),
    ],
    ids=lambda value: f"{value.id} {value.options}" if isinstance(value, Gym) else str(value),
)
def test_conformance(config, steps):
    check_suite(config, steps)


@pytest.mark.parametrize(
    ("name", "options", "spec"),
    [
        ("Pendulum-v1", "{}", "observation float32[3]; action Continuous(-2..2)"),
        ("FrozenLake-v1", "{}", "observation bool[16]; action Discrete(4)"),
        ("Go9x9-v1", "{}", "legal actions uint8[11], observation bool[9, 9, 17]; action Discrete(82)"),
        ("Pong-v5", "{}", "observation uint8[84, 84, 4]; action Discrete(6)"),
        (
            "Pong-v5",
            '{"stack_num": 2, "img_height": 40, "img_width": 50, "full_action_space": true}',
            "observation uint8[40, 50, 2]; action Discrete(18)",
        ),
        ("CartpoleBalance-v1", "{}", "position float32[3], velocity float32[2]; action Continuous(-1..1)"),
    ],
)
def test_spaces(name, options, spec):
    assert str(pooled(name, options).spec()) == spec


def test_an_environment_behaves_as_in_a_plain_pool_but_for_ends_one_step_late(make):
    env, plain = make(pooled("CartPole-v1"), 3), envpool.make_gymnasium("CartPole-v1", num_envs=3, seed=7)
    np.testing.assert_array_equal(env.reset(seed=7)[0], plain.reset()[0])
    rng, ended, episodes = np.random.default_rng(0), np.zeros(3, bool), 0
    for _ in range(100):
        actions = rng.integers(2, size=3).astype(np.int32)
        observation, reward, terminated, truncated, _ = env.step(actions)
        expected, expected_reward, ends, cut, _ = plain.step(actions)
        np.testing.assert_array_equal(observation, expected)
        np.testing.assert_array_equal(reward, expected_reward)
        np.testing.assert_array_equal(terminated | truncated, ended)
        assert np.all(reward[ended] == 0), "the step that only resets has no reward"
        assert np.all(np.abs(observation[ended]) <= 0.05)
        ended = ends | cut
        episodes += ended.sum()
    assert episodes > 5
    plain.close()


def test_termination_and_truncation_are_distinguished(make):
    env = make(pooled("CartPole-v1", '{"max_episode_steps": 12}'), 8)
    env.reset(seed=0)
    lengths, ended, cut_off = np.zeros(8, int), [], []
    for step in range(150):
        _, _, terminated, truncated, _ = env.step(np.full(8, step % 2 if step > 60 else 1, np.int32))
        lengths += 1
        assert not (terminated & truncated).any()
        ended += lengths[terminated].tolist()
        cut_off += lengths[truncated].tolist()
        lengths[terminated | truncated] = 0
    # Pushed to one side, a pole falls within 11 steps; the step that resets counts as one more.
    assert ended
    assert max(ended) <= 12
    assert set(cut_off) == {13}


def test_observations_are_never_overwritten(make):
    env = make(pooled("Pong-v5"), 2)
    observation, _ = env.reset(seed=0)
    before = observation.copy()
    for _ in range(5):
        env.step(np.array([2, 3], np.int32))
    np.testing.assert_array_equal(observation, before)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("Nope-v1", "{}", r"EnvPool has no environment 'Nope-v1'; envpool.list_all_envs\(\) lists them"),
        ("module:Echo-v0", "{}", "EnvPool has no environment 'module:Echo-v0'"),
        ("CartPole-v1", '{"wheels": 4}', "CartPole-v1 can't be made by EnvPool: .* argument 'wheels'"),
        ("CartPole-v1", '{"wheels": 4}', "CartPole-v1 can't be made by EnvPool: .* 'wheels'"),
        ("CartPole-v1", '{"render_mode": "ascii"}', "CartPole-v1 can't be made by EnvPool: render_mode must be one of"),
        ("Pong-v5", '{"frame_skip": "four"}', "Pong-v5 can't be made by EnvPool: .*incompatible"),
    ],
)
def test_environments_that_cannot_be_made_are_named(name, options, message):
    for build in (pooled(name, options).spec, lambda: pooled(name, options).make(2)):
        with pytest.raises(CannotBuild, match=message):
            build()


def test_without_envpool_it_says_how_to_install_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "envpool", None)
    with pytest.raises(CannotBuild, match=r"EnvPool is not installed here: pip install envpool"):
        pooled("CartPole-v1").make(1)
    Gym("CartPole-v1").make(1).close()
