"""The stand-in behaves as the real module was seen to."""

import os
import pickle
import zipfile

import numpy as np
import pytest

from tests.support import fake_deepmind_lab
from tests.support.fake_deepmind_lab import Lab, WouldCrash

SHORT = "lt_chasm"  # 18 frames
FORWARD = np.array([0, 0, 0, 1, 0, 0, 0], np.intc)
RGB = ["RGB_INTERLEAVED"]


@pytest.fixture
def lab():
    made = Lab(SHORT, RGB, config={"width": "16", "height": "8"})
    yield made
    made.close()


class Cache:
    """Remembers the calls; answers with a file, if it is given one."""

    def __init__(self, contents=None, answer=None):
        self.calls = []
        self._contents, self._answer = contents, answer

    def fetch(self, key, pk3_path):
        self.calls.append(("fetch", key))
        if self._contents is not None:
            with open(pk3_path, "wb") as file:
                file.write(self._contents)
        return self._answer

    def write(self, key, pk3_path):
        assert zipfile.is_zipfile(pk3_path)
        with open(pk3_path, "rb") as file:
            self.written = file.read()
        self.calls.append(("write", key))


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"observations": tuple(RGB)}, TypeError, "observations"),
        ({"config": None}, TypeError, "config"),
        ({"config": {"width": 96}}, TypeError, "96"),
        ({"config": {1: "96"}}, TypeError, "1"),
        ({"renderer": None}, TypeError, "None"),
        ({"temp_folder": None}, TypeError, "None"),
        ({"observations": ["X"]}, ValueError, "Unknown observation 'X'."),
        ({"level": "nowhere"}, RuntimeError, 'Failed to init environment - "Level not found'),
        ({"config": {"width": "97"}}, RuntimeError, "width"),
        ({"config": {"height": "0"}}, RuntimeError, "height"),
        ({"config": {"height": "-4"}}, RuntimeError, "height"),
        ({"config": {"mixerSeed": "4294967296"}}, RuntimeError, "mixerSeed"),
        ({"config": {"mixerSeed": "-1"}}, RuntimeError, "mixerSeed"),
    ],
)
def test_a_wrong_argument_is_refused(arguments, error, message):
    with pytest.raises(error, match=message):
        Lab(**{"level": SHORT, "observations": RGB, **arguments})


def test_a_wrong_runfiles_path_is_noticed_at_the_start_of_a_simulator(monkeypatch):
    monkeypatch.setattr(fake_deepmind_lab, "runfiles_path", "")
    fake_deepmind_lab.set_runfiles_path("/nowhere/at/all")
    with pytest.raises(RuntimeError, match="runfiles"):
        Lab(SHORT, RGB)


def test_unknown_settings_pass_and_frames_are_320_by_240_by_default():
    lab = Lab(SHORT, RGB, config={"nonsense": "yes"})
    lab.reset(seed=1)
    assert lab.observations()["RGB_INTERLEAVED"].shape == (240, 320, 3)


def test_specs(lab):
    observations = {spec["name"]: (spec["shape"], spec["dtype"]) for spec in lab.observation_spec()}
    assert observations["RGB_INTERLEAVED"] == ((8, 16, 3), np.uint8)
    assert observations["INSTR"][1] is str
    assert [(spec["min"], spec["max"]) for spec in lab.action_spec()] == [
        *[(-512, 512)] * 2,
        *[(-1, 1)] * 2,
        *[(0, 1)] * 3,
    ]
    assert not hasattr(lab, "fps")


def test_rewards_are_summed_over_the_frames_that_were_played(lab):
    lab.reset(seed=1)
    reward = lab.step(FORWARD, num_steps=4)
    assert type(reward) is float
    assert reward == 1.0
    assert [lab.step(FORWARD, num_steps=5), lab.step(FORWARD)] == [1.25, 0.25]
    assert lab.is_running()
    assert lab.step(FORWARD, num_steps=10) == 2.0  # 8 frames are left of 18
    assert not lab.is_running()
    assert lab.num_steps() == 20


def test_after_the_end_there_is_nothing_until_the_next_reset(lab):
    for call in (lambda: lab.step(FORWARD), lab.observations):
        with pytest.raises(RuntimeError):
            call()
    lab.reset(seed=1)
    lab.step(FORWARD, num_steps=18)
    for call in (lambda: lab.step(FORWARD), lab.observations):
        with pytest.raises(RuntimeError):
            call()
    lab.reset(seed=1)
    assert lab.is_running()
    lab.reset(seed=1)  # in mid-episode
    assert lab.num_steps() == 0


@pytest.mark.parametrize(
    ("action", "error"),
    [
        (FORWARD.tolist(), TypeError),
        (FORWARD.astype(np.int64), ValueError),
        (FORWARD[:6], ValueError),
        (FORWARD[None], ValueError),
        (np.zeros(14, np.intc)[::2], WouldCrash),
        (FORWARD.astype(np.dtype(np.intc).newbyteorder()), WouldCrash),
    ],
)
def test_a_wrong_action_is_refused(lab, action, error):
    lab.reset(seed=1)
    with pytest.raises(error):
        lab.step(action)


def test_seeds_are_python_integers_modulo_2_to_the_32(lab):
    for seed in (np.int64(1), 1.0, "1"):
        with pytest.raises(ValueError, match="seed"):
            lab.reset(seed=seed)
    lab.reset(seed=0)  # the first episode is different
    frames = []
    for seed in (5, 5 + 2**32, 6):
        lab.reset(seed=seed)
        frames.append(lab.observations()["RGB_INTERLEAVED"])
    assert np.array_equal(frames[0], frames[1])
    assert not np.array_equal(frames[0], frames[2])
    lab.reset()


def test_the_first_episode_differs_from_later_ones_with_the_same_seed():
    frames = []
    for _ in range(2):
        lab = Lab(SHORT, RGB)
        for _ in range(3):
            lab.reset(seed=1)
            frames.append(lab.observations()["RGB_INTERLEAVED"])
    first, second, third, other_first, *_ = frames
    assert np.array_equal(first, other_first)
    assert np.array_equal(second, third)
    assert not np.array_equal(first, second)


def test_each_call_renders_a_new_array(lab):
    lab.reset(seed=1)
    frames = [lab.observations()["RGB_INTERLEAVED"] for _ in range(2)]
    assert not np.shares_memory(*frames)
    assert lab.renderings == 2


def test_a_closed_simulator_raises_or_ends_the_process(lab):
    lab.reset(seed=1)
    assert [lab.close(), lab.close()] == [True, False]
    for raising in (lambda: lab.step(FORWARD), lab.observations, lab.events):
        with pytest.raises(RuntimeError):
            raising()
    for crashing in (lab.reset, lab.observation_spec, lab.action_spec):
        with pytest.raises(WouldCrash):
            crashing()


def test_it_can_not_be_pickled(lab):
    with pytest.raises(TypeError, match="pickle"):
        pickle.dumps(lab)


def test_it_hangs_after_a_fork(lab, monkeypatch):
    monkeypatch.setattr(os, "getpid", lambda: -1)  # as in a child
    for call in (lab.reset, lab.is_running, lab.observations):
        with pytest.raises(WouldCrash, match="before the fork"):
            call()


@pytest.mark.parametrize("level", sorted(fake_deepmind_lab.LEVELS))
def test_a_miss_is_written_a_hit_is_not_and_a_prebuilt_map_never_asked_for(level, monkeypatch):
    monkeypatch.setattr(fake_deepmind_lab, "compiled", [])
    config = {"datasetPath": "somewhere"}
    miss = Cache()
    Lab(level, RGB, config, level_cache=miss).reset(seed=1)
    names = [name for name, _ in miss.calls]
    if fake_deepmind_lab.LEVELS[level].compiles:
        assert names == ["fetch", "write"]
        assert len({key for _, key in miss.calls}) == 1
        hit = Cache(miss.written, answer=1)
        Lab(level, RGB, config, level_cache=hit).reset(seed=1)
        assert [name for name, _ in hit.calls] == ["fetch"]
        assert hit.calls[0] == miss.calls[0]
        assert len(fake_deepmind_lab.compiled) == 1
    else:
        assert names == fake_deepmind_lab.compiled == []


@pytest.mark.parametrize("contents", [None, b"PK\x03\x04 half of an archive"])
def test_a_hit_without_a_whole_file_ends_the_process(contents):
    lab = Lab("contributed/dmlab30/explore_goal_locations_small", RGB, level_cache=Cache(contents, answer=True))
    with pytest.raises(WouldCrash):
        lab.reset(seed=1)


def test_errors_in_the_cache_come_out_of_reset_as_they_are_and_of_the_constructor_as_a_cause():
    class Broken:
        def fetch(self, key, pk3_path):
            raise KeyError(key)

    lab = Lab("contributed/dmlab30/explore_goal_locations_small", RGB, level_cache=Broken())
    with pytest.raises(KeyError):
        lab.reset(seed=1)
    with pytest.raises(SystemError) as error:
        Lab("contributed/dmlab30/skymaze_irreversible_path_hard", RGB, level_cache=Broken())
    assert isinstance(error.value.__cause__, KeyError)


def test_pictures_need_a_dataset():
    with pytest.raises(RuntimeError, match="dataset"):
        Lab("contributed/dmlab30/psychlab_continuous_recognition", RGB)
