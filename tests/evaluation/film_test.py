import os
import resource

import imageio.v2 as imageio
import numpy as np
import pytest

from seed_rl.envs.catch import Catch
from seed_rl.evaluation.episodes import play
from seed_rl.evaluation.film import captioned, film
from seed_rl.evaluation.policy import experiment_of, load_policy

FPS = 5.0
HELD = 5  # pictures in a second
STEPS = 9  # of an episode of Catch


@pytest.fixture
def watched(killed_run):
    env = experiment_of(killed_run).env.watch()
    yield env
    env.close()


@pytest.fixture
def policy(killed_run):
    return load_policy(killed_run, greedy=True, seed=1)


@pytest.fixture
def at_most_20_kb():
    """No file may become larger, as on a disk that is full."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_films_show_every_step_and_hold_the_end(policy, watched, tmp_path):
    paths = [str(tmp_path / name) for name in ("play.mp4", "play.gif")]
    played = film(policy, watched, 4, seed=2, paths=paths, fps=FPS)
    assert played.lengths.tolist() == [STEPS] * 4
    assert sorted(os.listdir(tmp_path)) == ["play.gif", "play.mp4"]
    for path in paths:
        pictures = np.array(imageio.mimread(path, memtest=False))[..., :3]
        assert pictures.shape == (4 * (STEPS + HELD), 640 + 32, 320, 3)
        for episode in pictures.reshape(4, STEPS + HELD, *pictures.shape[1:]).astype(int):
            changed = np.abs(np.diff(episode[:, :640], axis=0)).max(axis=(1, 2, 3)) > 100
            assert changed.tolist() == [True] * (STEPS - 1) + [False] * HELD, "the ball falls, and then all stands"
    for index, value in enumerate(played.returns):
        end = pictures[(index + 1) * (STEPS + HELD) - 1]
        expected = captioned(end[:640], f"episode {index + 1}   score {value:g}")
        assert np.abs(end.astype(int) - expected).max() < 32, "the reward of the last action is in the score"
        before = captioned(end[:640], f"episode {index + 1}   score 0")
        assert np.abs(end.astype(int) - before).max() > 100


def test_a_film_has_the_rate_that_is_asked_for(policy, watched, tmp_path):
    film(policy, watched, 1, seed=2, paths=[str(tmp_path / "a.mp4")], fps=12.5)
    with imageio.get_reader(tmp_path / "a.mp4") as reader:
        about = reader.get_meta_data()
        assert about["fps"] == 12.5
        assert about["duration"] == pytest.approx((STEPS + 12) / 12.5, abs=0.05)


def test_what_is_filmed_is_what_would_have_been_played(policy, watched, killed_run, tmp_path):
    filmed = film(policy, watched, 20, seed=3, paths=[], fps=FPS)
    env = experiment_of(killed_run).env.make(1)
    np.testing.assert_array_equal(play(policy, env, 20, seed=3).returns, filmed.returns)


def test_the_caption_tells_the_score():
    picture = np.full((401, 333, 3), 200, np.uint8)
    one, other = (captioned(picture, f"episode 1   score {score}") for score in (3, 21))
    assert one.shape == other.shape == (402 + 32, 334, 3)
    np.testing.assert_array_equal(one[:401, :333], picture)
    np.testing.assert_array_equal(one[:402], other[:402])
    assert (one[402:] != other[402:]).any()
    assert one[402:].max() == 255


def test_a_caption_grows_with_the_picture():
    written = {
        height: (captioned(np.zeros((height, height, 3), np.uint8), "score 1").max(axis=(1, 2)) > 128).sum()
        for height in (100, 320, 960)
    }
    assert written[100] >= 8, "can be read"
    assert written[960] > 2 * written[320] > 2 * written[100]


def test_a_caption_fits_into_the_narrowest_picture():
    caption = captioned(np.zeros((320, 320, 3), np.uint8), "episode 100   score -123,456.78")
    assert caption[:, :-8].max() == 255
    assert not caption[:, -8:].any()


@pytest.mark.parametrize("name", ["play.mp4", "play.gif"])
def test_a_full_disk_is_told_and_leaves_nothing(policy, watched, tmp_path, name, at_most_20_kb):
    with pytest.raises(OSError, match=f"{name}: ffmpeg "):
        film(policy, watched, 60, seed=1, paths=[str(tmp_path / name)], fps=FPS)
    assert os.listdir(tmp_path) == []


def test_a_file_that_cannot_be_written_is_told_before_anything_is_played(tmp_path):
    class NeverPlayed:
        def reset(self, num_envs):
            raise AssertionError

    with pytest.raises(FileNotFoundError, match="nowhere"):
        film(NeverPlayed(), Catch().watch(), 1, seed=1, paths=[str(tmp_path / "nowhere" / "play.mp4")], fps=FPS)
    with pytest.raises(ValueError, match=r"films end in \.mp4 or \.gif, got play.avi"):
        film(NeverPlayed(), Catch().watch(), 1, seed=1, paths=["play.avi"], fps=FPS)
