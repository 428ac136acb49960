"""The stand-in raises where the real module was seen to crash or refuse: that is its purpose."""

import os

import numpy as np
import pytest

from tests.support.fake_deepmind_lab import Lab, WouldCrash

SHORT, RGB = "lt_chasm", ["RGB_INTERLEAVED"]
FORWARD = np.array([0, 0, 0, 1, 0, 0, 0], np.intc)


@pytest.fixture
def lab():
    made = Lab(SHORT, RGB, config={"width": "16", "height": "8"})
    made.reset(seed=1)
    yield made
    made.close()


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"observations": tuple(RGB)}, TypeError, "observations"),
        ({"config": {"width": 96}}, TypeError, "96"),
        ({"level": "nowhere"}, RuntimeError, 'Failed to init environment - "Level not found'),
        ({"level": "contributed/dmlab30/psychlab_continuous_recognition"}, RuntimeError, "dataset"),
        ({"config": {"height": "0"}}, RuntimeError, "height"),
        ({"config": {"mixerSeed": "4294967296"}}, RuntimeError, "mixerSeed"),
        ({"config": {"mixerSeed": "-1"}}, RuntimeError, "mixerSeed"),
    ],
)
def test_a_wrong_argument_is_refused(arguments, error, message):
    with pytest.raises(error, match=message):
        Lab(**{"level": SHORT, "observations": RGB, **arguments})


@pytest.mark.parametrize(
    ("action", "error"),
    [
        (FORWARD.tolist(), TypeError),
        (FORWARD.astype(np.int64), ValueError),
        (FORWARD[None], ValueError),
        (np.zeros(14, np.intc)[::2], WouldCrash),
        (np.stack([FORWARD] * 2)[0], WouldCrash),
    ],
)
def test_a_wrong_action_is_refused(lab, action, error):
    with pytest.raises(error):
        lab.step(action)


@pytest.mark.parametrize("seed", [np.int64(1), 1.0, 2**32, -1])
def test_seeds_are_python_integers_below_2_to_the_32(lab, seed):
    with pytest.raises(ValueError, match="seed"):
        lab.reset(seed=seed)


def test_the_first_episode_differs_from_later_ones_with_the_same_seed(lab):
    frames = [lab.observations()[RGB[0]]]
    for _ in range(2):
        lab.reset(seed=1)
        frames.append(lab.observations()[RGB[0]])
    assert not np.array_equal(frames[0], frames[1])
    assert np.array_equal(frames[1], frames[2])


def test_after_the_end_there_is_nothing_until_the_next_reset(lab):
    assert lab.step(FORWARD, num_steps=20) == 0.25 * 18
    for call in (lambda: lab.step(FORWARD), lab.observations):
        with pytest.raises(RuntimeError, match="wrong status"):
            call()


def test_a_closed_simulator_and_a_forked_one_end_the_process(lab, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(os, "getpid", lambda: -1)  # as in a child
        with pytest.raises(WouldCrash, match="before the fork"):
            lab.is_running()
    assert [lab.close(), lab.close()] == [True, False]
    with pytest.raises(WouldCrash, match="closed"):
        lab.reset(seed=1)


def test_a_cache_must_bring_a_whole_file():
    class Empty:
        def fetch(self, key, pk3_path):
            return True

    with pytest.raises(WouldCrash, match="no pk3 file"):
        Lab("contributed/dmlab30/explore_goal_locations_small", RGB, level_cache=Empty()).reset(seed=1)
