"""Catch and Memory: their rules, and the returns of good and bad policies."""

import numpy as np
import pytest

from seed_rl.envs.catch import Catch
from seed_rl.envs.conformance import check_suite
from seed_rl.envs.memory import Memory


@pytest.mark.parametrize(
    "config", [Catch(), Catch(rows=6, columns=4), Memory(), Memory(num_cues=2, delay=1), Memory(num_cues=7, delay=3)]
)
def test_conformance(config):
    check_suite(config, steps=60)


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


def test_an_episode_of_memory_is_a_cue_then_nothing_then_a_light():
    env = Memory(num_cues=3, delay=2).make(50)
    first, _ = env.reset(seed=0)
    assert first.shape == (50, 1, 4, 1)
    assert np.all(np.sort(first[:, 0, :, 0]) == [0, 0, 0, 255])
    assert set(first[:, 0, :, 0].argmax(axis=1)) == {0, 1, 2}
    for seen in ([0, 0, 0, 0], [0, 0, 0, 0], [0, 0, 0, 255]):
        observation, reward, terminated, _, _ = env.step(np.zeros(50, int))
        assert np.all(observation[:, 0, :, 0] == seen)
        assert not reward.any()
        assert not terminated.any()
    observation, reward, terminated, truncated, _ = env.step(np.full(50, 2))
    np.testing.assert_array_equal(reward, first[:, 0, 2, 0] == 255)
    assert terminated.all()
    assert not truncated.any()
    assert np.all(np.sort(observation[:, 0, :, 0]) == [0, 0, 0, 255]), "the next episode's cue"
    assert not np.array_equal(observation, first)


def play(config, policy, num_envs=500, episodes=20):
    """Returns [episodes, E] of a policy: observations [E, num_cues + 1] and memory -> actions [E] and memory."""
    env = config.make(num_envs)
    observation, _ = env.reset(seed=0)
    returns, memory = [], None
    for _ in range(episodes):
        returns.append(np.zeros(num_envs))
        for step in range(config.delay + 2):
            actions, memory = policy(observation[:, 0, :, 0], memory)
            observation, reward, terminated, _, _ = env.step(actions)
            returns[-1] += reward
            assert np.all(terminated == (step == config.delay + 1))
    return np.array(returns)


@pytest.mark.parametrize(("num_cues", "delay"), [(2, 1), (4, 10), (5, 3)])
def test_a_policy_that_remembers_the_cue_is_always_right_and_only_its_last_action_counts(num_cues, delay):
    noise = np.random.default_rng(0)

    def remember(pixels, cue):
        cue = np.where(pixels[:, :-1].any(axis=1), pixels.argmax(axis=1), 0 if cue is None else cue)
        return np.where(pixels[:, -1] > 0, cue, noise.integers(num_cues, size=len(pixels))), cue

    assert np.all(play(Memory(num_cues=num_cues, delay=delay), remember) == 1.0)


@pytest.mark.parametrize("shift", range(4))
def test_a_policy_without_memory_is_right_by_chance(shift):
    def forget(pixels, _):
        return np.where(pixels.any(axis=1), (pixels.argmax(axis=1) + shift) % 4, shift), None

    returns = play(Memory(num_cues=4, delay=2), forget)
    np.testing.assert_allclose(returns.mean(), 0.25, atol=5 * np.sqrt(0.25 * 0.75 / returns.size))
