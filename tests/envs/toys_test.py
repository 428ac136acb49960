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


@pytest.mark.parametrize(("num_cues", "delay"), [(2, 1), (4, 10), (5, 3)])
def test_naming_the_cue_at_last_is_always_right_and_guessing_it_by_chance(num_cues, delay):
    env, noise = Memory(num_cues=num_cues, delay=delay).make(500), np.random.default_rng(0)
    observation, _ = env.reset(seed=0)
    cues = []
    for _ in range(20):
        cues.append(observation[:, 0, :, 0].argmax(axis=1))
        for step in range(delay + 2):
            is_last = step == delay + 1
            actions = cues[-1] if is_last else noise.integers(num_cues, size=500)
            observation, reward, terminated, _, _ = env.step(actions)
            assert np.all(terminated == is_last)
            assert np.all(reward == is_last)
    five_sigma = 5 * np.sqrt(0.25 / 9_500)
    np.testing.assert_allclose(np.bincount(np.ravel(cues)) / 10_000, 1 / num_cues, atol=five_sigma)
    repeated = np.equal(cues[1:], cues[:-1])
    assert repeated.mean() == pytest.approx(1 / num_cues, abs=five_sigma), "the previous cue says nothing"
