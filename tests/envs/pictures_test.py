"""Watching: the pictures of each suite, and that they change nothing."""

from contextlib import closing

import numpy as np
import pytest

from seed_rl.envs.base import random_actions
from seed_rl.envs.catch import Catch
from seed_rl.envs.football.maps import newest_in_colours
from seed_rl.envs.gym import Gym


@pytest.mark.parametrize(
    ("config", "steps"),
    [
        (Gym("CartPole-v1", options='{"max_episode_steps": 10}', vectorization="async"), 24),
        (Catch(), 30),
    ],
    ids=str,
)
def test_watching_does_not_change_the_game(config, steps):
    with closing(config.make(1)) as unwatched, closing(config.watch()) as env:
        expected, observation = unwatched.reset(seed=5)[0], env.reset(seed=5)[0]
        action, rng, ends, pictures = config.spec().action, np.random.default_rng(1), 0, []
        for _ in range(steps):
            np.testing.assert_array_equal(observation, expected)
            pictures.append(env.picture(observation))
            actions = random_actions(action, rng, 1)
            expected, *expected_results, _ = unwatched.step(actions)
            observation, *results, _ = env.step(actions)
            np.testing.assert_array_equal(results, expected_results)
            ends += np.any(results[1:])
    assert ends > 1, "several episodes"
    assert {(picture.shape, picture.dtype) for picture in pictures} == {(pictures[0].shape, np.dtype(np.uint8))}
    assert pictures[0].shape[2:] == (3,)
    assert len({picture.tobytes() for picture in pictures}) > 10


def test_gray_observations_are_shown_as_they_are():
    with closing(Catch().watch()) as env:
        observation, _ = env.reset(seed=1)
        np.testing.assert_array_equal(env.picture(observation), observation[0].repeat(3, axis=-1))


def test_football_shows_its_last_map_in_colours():
    stacked = np.zeros((2, 3), np.uint16)
    stacked[0] = [1 << 12, 1 << 13, 1 << 14]  # left, right, ball
    stacked[1] = [1 << 15 | 1 << 12, 0b1111 << 12, 0b1111]  # the active player, all, and of the oldest map
    left, right, ball, active, grass = (240, 200, 40), (220, 60, 50), (255, 255, 255), (70, 150, 255), (32, 96, 48)
    np.testing.assert_array_equal(newest_in_colours(stacked), [[left, right, ball], [active, ball, grass]])
