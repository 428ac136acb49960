"""Watching: the pictures of suites, and that they change nothing."""

from contextlib import closing

import numpy as np
import pytest

from seed_rl.envs.base import random_actions
from seed_rl.envs.catch import Catch
from seed_rl.envs.football.maps import newest_in_colours
from seed_rl.envs.gym import Gym


@pytest.mark.parametrize("config", [Gym(options='{"max_episode_steps": 10}', vectorization="async"), Catch()], ids=str)
def test_watching_does_not_change_the_game(config):
    with closing(config.make(1)) as unwatched, closing(config.watch()) as env:
        expected, observation = unwatched.reset(seed=5)[0], env.reset(seed=5)[0]
        action, rng, ends, pictures = config.spec().action, np.random.default_rng(1), 0, []
        for _ in range(24):
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


def test_football_shows_its_last_map_in_colours():
    picture = newest_in_colours(np.array([[1 << 12, 0b1111 << 12, 0b1111]], np.uint16))  # left, all, of an older map
    assert picture.tolist() == [[[240, 200, 40], [255, 255, 255], [32, 96, 48]]]
