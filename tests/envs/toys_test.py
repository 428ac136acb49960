"""Catch and Memory: their rules, and the returns of good and bad policies."""

import numpy as np

from seed_rl.envs.catch import Catch
from seed_rl.envs.memory import Memory


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
    env, rng = Memory(num_cues=3, delay=2).make(9_000), np.random.default_rng(0)
    first = env.reset(seed=0)[0][:, 0, :, 0]
    cue = first.argmax(axis=1)
    assert np.all(np.sort(first) == [0, 0, 0, 255])
    for seen in ([0, 0, 0, 0], [0, 0, 0, 0], [0, 0, 0, 255]):
        observation, reward, terminated, _, _ = env.step(rng.integers(3, size=9_000))
        assert np.all(observation[:, 0, :, 0] == seen)
        assert not reward.any()
        assert not terminated.any()
    named = rng.integers(3, size=9_000)
    observation, reward, terminated, truncated, _ = env.step(named)
    np.testing.assert_array_equal(reward, named == cue)
    assert terminated.all()
    assert not truncated.any()
    following = observation[:, 0, :, 0].argmax(axis=1)
    five_sigma = 5 * np.sqrt(9_000 * 1 / 9 * 8 / 9)
    pairs = np.bincount(3 * cue + following, minlength=9)
    np.testing.assert_allclose(pairs, 1_000, atol=five_sigma, err_msg="a cue says nothing about the next one")
