"""Watching: the pictures, and that they change nothing."""

import pathlib

import numpy as np
import pytest

from seed_rl.envs.atari import Atari
from seed_rl.envs.base import random_actions
from seed_rl.envs.catch import Catch
from seed_rl.envs.dmlab import DMLab
from seed_rl.envs.errors import CannotBuild
from seed_rl.envs.football import Football
from seed_rl.envs.football.maps import newest_in_colours
from seed_rl.envs.gym import Gym
from seed_rl.envs.memory import Memory
from seed_rl.envs.pictures import enlarged
from tests.support import fake_deepmind_lab
from tests.support.counting import Counting


@pytest.fixture
def watch():
    watched = []

    def start(config):
        watched.append(config.watch())
        return watched[-1]

    yield start
    for env in watched:
        env.close()


@pytest.fixture
def fake_lab(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(fake_deepmind_lab.install(tmp_path))


def history(env, spec, steps, look=lambda env: None):
    """What an environment says while random actions are taken."""
    rng = np.random.default_rng(1)
    said = [np.array(env.reset(seed=5)[0])]
    looks = [look(env)]
    for _ in range(steps):
        observation, *rest, _ = env.step(random_actions(spec.action, rng, 1))
        said += [np.array(observation), *map(np.array, rest)]
        looks.append(look(env))
    return said, looks


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
def test_watching_does_not_change_the_game(watch, config, steps):
    env = config.make(1)
    alone, _ = history(env, config.spec(), steps)
    env.close()
    watched, pictures = history(watch(config), config.spec(), steps, lambda env: env.picture())
    assert all(np.array_equal(a, b) for a, b in zip(alone, watched, strict=True))
    ends = [terminated | truncated for terminated, truncated in zip(alone[3::4], alone[4::4], strict=True)]
    assert np.sum(ends) > 1, "several episodes"
    assert {picture.shape for picture in pictures} == {pictures[0].shape}
    assert len({picture.tobytes() for picture in pictures}) > 10


def shrunk(frame, size):
    """A grey frame [H, W] by the means of areas: [size, size]."""

    def weights(length):
        edges = np.arange(size + 1) * length / size
        pixels = np.arange(length)
        overlaps = np.minimum(edges[1:, None], pixels + 1) - np.maximum(edges[:-1, None], pixels)
        return overlaps.clip(0) * size / length

    return np.einsum("ij,jk,lk->il", weights(frame.shape[0]), frame, weights(frame.shape[1]), optimize=True)


def test_the_screen_of_the_console_is_that_of_the_game_that_is_played(watch):
    config = Atari(game="breakout", sticky_actions=0.25, max_episode_frames=200)
    env = watch(config)
    env.reset(seed=5)
    assert env.picture().shape == (420, 320, 3)
    action = config.spec().action
    rng, seen, screens = np.random.default_rng(1), [], []
    for _ in range(60):
        seen.append(np.array(env.step(random_actions(action, rng, 1))[0])[0, ..., 0])
        red, green, blue = np.moveaxis(env.picture()[::2, ::2], -1, 0)
        screens.append(shrunk(0.299 * red + 0.587 * green + 0.114 * blue, 84))
    differences = np.abs(np.array(screens) - seen).max(axis=(1, 2))
    assert differences.max() < 3, "but for rounding the agent sees it in grey"
    earlier = np.abs(np.array(screens)[1:] - seen[:-1]).max(axis=(1, 2))
    assert np.median(earlier) > 30, "a step makes a difference"
    with pytest.raises(ValueError, match="twins need a seed"):
        env.reset()


def test_atari_reports_rewards_as_they_are():
    env = Atari(game="space_invaders").make(4)
    env.reset(seed=1)
    rng = np.random.default_rng(1)
    rewards = {float(r) for _ in range(150) for r in env.step(rng.integers(6, size=4))[1]}
    env.close()
    assert rewards >= {0.0, 5.0}, "an invader of the first row is worth 5"


@pytest.mark.parametrize(
    ("config", "shape"), [(Catch(), (640, 320)), (Memory(), (320, 1600)), (Catch(rows=100, columns=20), (1600, 320))]
)
def test_observations_are_enlarged(watch, config, shape):
    env = watch(config)
    observation, _ = env.reset(seed=1)
    frame = observation[0, ..., 0]
    picture = env.picture()
    assert (picture.shape, picture.dtype) == ((*shape, 3), np.uint8)
    factor = shape[0] // frame.shape[0]
    np.testing.assert_array_equal(picture[factor // 2 :: factor, factor // 2 :: factor, 1], frame)
    assert np.array_equal(picture, np.kron(frame, np.ones((factor, factor), np.uint8))[..., None].repeat(3, axis=-1))


@pytest.mark.parametrize(
    ("size", "becomes"),
    [((10, 5), (640, 320)), ((72, 96), (360, 480)), ((319, 400), (638, 800)), ((320, 400), (320, 400))],
)
def test_pictures_are_enlarged_by_whole_numbers(size, becomes):
    assert enlarged(np.zeros((*size, 3), np.uint8)).shape == (*becomes, 3)


def test_long_pictures_stay_within_a_screen():
    assert enlarged(np.zeros((1, 100, 3), np.uint8)).shape == (19, 1900, 3)
    assert enlarged(np.zeros((10, 4000, 3), np.uint8)).shape == (10, 4000, 3)


def test_deepmind_lab_shows_what_the_agent_sees(watch, fake_lab):
    env = watch(DMLab(level="seekavoid_arena_01", width=32, height=24))
    observation, _ = env.reset(seed=1)
    assert env.picture().shape == (336, 448, 3)
    np.testing.assert_array_equal(env.picture()[::14, ::14], observation[0])


def test_scores_of_deepmind_lab():
    assert DMLab(level="rooms_watermaze").human_normalised(30.0) == pytest.approx(100 * (30 - 4.065) / (54 - 4.065))
    assert DMLab(level="contributed/dmlab30/rooms_watermaze").human_normalised(54.0) == pytest.approx(100)
    assert DMLab(level="seekavoid_arena_01").human_normalised(30.0) is None


def test_football_shows_its_last_map_in_colours():
    stacked = np.zeros((2, 3), np.uint16)
    stacked[0] = [1 << 12, 1 << 13, 1 << 14]  # left, right, ball
    stacked[1] = [1 << 15 | 1 << 12, 0b1111 << 12, 0b1111]  # the active player, all, and of the oldest map
    left, right, ball, active, grass = (240, 200, 40), (220, 60, 50), (255, 255, 255), (70, 150, 255), (32, 96, 48)
    np.testing.assert_array_equal(newest_in_colours(stacked), [[left, right, ball], [active, ball, grass]])


@pytest.mark.parametrize("backend", ["gfootball", "envpool"])
def test_football_can_be_watched(watch, backend):
    if backend == "envpool":
        pytest.importorskip("envpool", reason="it has no wheels for Python 3.10")
    config = Football(backend=backend)
    _, pictures = history(watch(config), config.spec(), 20, lambda env: env.picture())
    assert pictures[0].shape == (360, 480, 3)
    for picture in pictures:
        assert (picture == 255).all(axis=-1).sum() == 25, "one ball, a pixel of 5 x 5"
    assert len({picture.tobytes() for picture in pictures}) > 3, "it moves"


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (Counting(), r"nothing to see: a picture is uint8 \[H, W, 1 or 3\], observations are Box.*int32"),
        (
            Gym("registered_envs:Counted-v0"),
            "Counted-v0 can't be watched: .*render.*; and there is nothing to see",
        ),
        (Gym("NoSuch-v0"), "^NoSuch-v0 can't be made"),
    ],
    ids=["counting", "renders nothing", "is not there"],
)
def test_what_cannot_be_watched_is_told(monkeypatch, config, message):
    monkeypatch.syspath_prepend(pathlib.Path(__file__).parent)
    with pytest.raises(CannotBuild, match=message):
        config.watch()
