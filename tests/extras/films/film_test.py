import contextlib
import itertools
import os
from types import SimpleNamespace

import imageio.v2 as imageio
import numpy as np
import pytest

from seed_rl.envs.base import Watchable
from seed_rl.envs.catch import Catch
from seed_rl.envs.pettingzoo import PettingZoo
from seed_rl.envs.vector.steps import random_policy
from seed_rl.evaluation.policy import load_policy
from seed_rl.extras.films.film import Limits, add_caption, film
from tests.support.full_disk import largest_file
from tests.support.still import Still, counted

FPS = 5.0
HELD = 5  # pictures in a second
STEPS = 9  # of an episode of Catch


@pytest.fixture
def watched():
    with contextlib.closing(Catch().watch()) as env:
        yield env


@pytest.fixture
def policy(saved_run):
    return load_policy(saved_run("catch/vtrace")[0], greedy=True, seed=1)


@pytest.fixture
def directory(tmp_path):
    """An empty one."""
    (films := tmp_path / "films").mkdir()
    return films


@pytest.fixture
def paths(directory):
    return [str(directory / name) for name in ("play.mp4", "play.gif")]


def test_films_show_every_step_and_hold_the_end(policy, watched, directory, paths):
    played = film(policy, watched, 4, seed=2, paths=paths, fps=FPS)
    assert played.lengths.tolist() == [STEPS] * 4
    assert sorted(os.listdir(directory)) == ["play.gif", "play.mp4"]
    for path in paths:
        pictures = np.array(imageio.mimread(path, memtest=False))[..., :3]
        assert pictures.shape == (4 * (STEPS + HELD), 640 + 32, 320, 3)
        for episode in pictures.reshape(4, STEPS + HELD, *pictures.shape[1:]).astype(int):
            changed = np.abs(np.diff(episode[:, :640], axis=0)).max(axis=(1, 2, 3)) > 100
            assert changed.tolist() == [True] * (STEPS - 1) + [False] * HELD, "the ball falls, and then all stands"
    for index, value in enumerate(played.returns):
        end = pictures[(index + 1) * (STEPS + HELD) - 1]
        expected = add_caption(end[:640], f"episode {index + 1}   score {value:g}")
        assert np.abs(end.astype(int) - expected).max() < 32, "the reward of the last action is in the score"
    with imageio.get_reader(paths[0]) as reader:
        assert reader.get_meta_data()["fps"] == FPS


@pytest.mark.parametrize("max_steps", [None, 3])
def test_an_episode_whose_end_is_reported_a_step_late_has_the_same_film(tmp_path, monkeypatch, max_steps):
    shown = {"Same": [], "Next": []}
    for mode, captions in shown.items():
        drawn = lambda picture, text, captions=captions: captions.append(text) or add_caption(picture, text)  # noqa: E731
        monkeypatch.setattr("seed_rl.extras.films.film.add_caption", drawn)
        env = Watchable(counted(mode).make(1), lambda numbers: np.full((8, 8, 3), numbers[0, 2], np.uint8))
        film(Still(), env, 3, seed=2, paths=[str(tmp_path / f"{mode}.gif")], fps=FPS, max_steps=max_steps)
    assert shown["Next"] == shown["Same"]
    assert shown["Same"][2] == "episode 1   score 3"


def test_a_film_is_complete_at_its_limits(policy, watched, paths):
    def lengths():
        return [len(imageio.mimread(path, memtest=False)) for path in paths]

    played = film(policy, watched, 10**9, seed=2, paths=paths, fps=FPS, limits=Limits(steps=12))
    assert (lengths(), played.lengths.tolist()) == ([12 + 1 + HELD] * 2, [STEPS])
    film(policy, watched, 10**9, seed=2, paths=paths, fps=FPS, limits=Limits(size=1))
    assert lengths()[0] == lengths()[1] >= 1
    assert Limits(seconds=0.0).is_set()


def test_a_full_disk_is_an_error_and_leaves_nothing(policy, watched, directory, paths):
    for path in paths:
        with largest_file(1_000), pytest.raises(OSError, match=f"{path}: ffmpeg "):
            film(policy, watched, 4, seed=1, paths=[path], fps=FPS)
        assert os.listdir(directory) == []


def test_a_film_shows_each_game_once():
    seen, player = [], SimpleNamespace(reset=lambda num_envs: None, act=random_policy(PettingZoo().spec(), seed=0))
    with contextlib.closing(PettingZoo().watch()) as env:
        env.picture = lambda observation, draw=env.picture: seen.append(draw(observation)) or seen[-1]
        played = film(player, env, 2, 1, [], fps=5.0)
    first, second = played.lengths[::2]
    assert played.lengths.tolist() == [first, first, second, second]
    assert played.returns[::2].tolist() == (-played.returns[1::2]).tolist()
    assert len(seen) == first + second
    assert all(np.any(one != next_one) for one, next_one in itertools.pairwise(seen))
