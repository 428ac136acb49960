"""Watching: the pictures of each suite, and that they change nothing."""

from contextlib import closing

import numpy as np
import pytest

from seed_rl.envs.atari import Atari
from seed_rl.envs.base import CannotBuild, random_actions
from seed_rl.envs.catch import Catch
from seed_rl.envs.football import Football
from seed_rl.envs.football.maps import newest_in_colours
from seed_rl.envs.gym import Gym
from tests.support.counting import Counting


def history(env, spec, steps, picture=lambda observation: None):
    """Everything that an environment returns while random actions are taken, and its pictures."""
    with closing(env):
        rng = np.random.default_rng(1)
        observation = env.reset(seed=5)[0]
        returned, pictures = [np.array(observation)], [picture(observation)]
        for _ in range(steps):
            observation, *rest, _ = env.step(random_actions(spec.action, rng, 1))
            returned += [np.array(observation), *map(np.array, rest)]
            pictures.append(picture(observation))
        return returned, pictures


@pytest.mark.parametrize(
    ("config", "steps"),
    [
        (Atari(game="breakout", sticky_actions=0.25, max_episode_frames=200), 120),
        (Gym("CartPole-v1"), 100),
        (Gym("CartPole-v1", vectorization="async"), 100),
        (Gym("CartPole-v1", vectorization="vector_entry_point"), 100),
        (Catch(), 30),
    ],
    ids=str,
)
def test_watching_does_not_change_the_game(config, steps):
    alone, _ = history(config.make(1), config.spec(), steps)
    env = config.watch()
    watched, pictures = history(env, config.spec(), steps, env.picture)
    assert all(np.array_equal(a, b) for a, b in zip(alone, watched, strict=True))
    ends = [terminated | truncated for terminated, truncated in zip(alone[3::4], alone[4::4], strict=True)]
    assert np.sum(ends) > 1, "several episodes"
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


@pytest.mark.parametrize("backend", ["gfootball", "envpool"])
def test_football_can_be_watched(backend):
    config = Football(backend=backend)
    env = config.watch()
    _, pictures = history(env, config.spec(), 20, env.picture)
    for picture in pictures:
        assert picture.shape == (72, 96, 3)
        assert (picture == 255).all(axis=-1).sum() == 1, "one ball"
    assert len({picture.tobytes() for picture in pictures}) > 3, "it moves"


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (Counting(), r"nothing to draw: pictures are uint8 \[H, W, 1 or 3\], observations are Box.*int32"),
        (
            Gym("tests.support.registered_envs:Counted-v0"),
            "Counted-v0 can't be filmed: .*render.*; and there is nothing to draw",
        ),
        (Gym("NoSuch-v0"), "^NoSuch-v0 can't be made"),
    ],
    ids=["counting", "renders nothing", "is not there"],
)
def test_environments_that_cannot_be_watched_are_named(config, message):
    with pytest.raises(CannotBuild, match=message):
        config.watch()
