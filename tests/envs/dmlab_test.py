"""DeepMind Lab through a stand-in and, where it is installed, through the real simulator as well."""

import importlib.util
import os
import sys
import tempfile

import numpy as np
import pytest

from seed_rl.envs.base import CannotBuild
from seed_rl.envs.conformance import check_suite
from seed_rl.envs.dmlab import DEFAULT_ACTIONS, VOCABULARY, DMLab
from seed_rl.envs.dmlab.env import DMLabEnv, word_ids
from tests.support import fake_deepmind_lab

PREBUILT = "seekavoid_arena_01"  # nothing to compile
FORWARD, BACKWARD, FIRE = 0, 1, 8


@pytest.fixture
def fake(tmp_path, monkeypatch):
    """Makes `import deepmind_lab` find the stand-in, in spawned processes too: they inherit `sys.path`."""
    monkeypatch.syspath_prepend(fake_deepmind_lab.install(tmp_path))
    monkeypatch.delitem(sys.modules, "deepmind_lab", raising=False)
    yield
    sys.modules.pop("deepmind_lab", None)


@pytest.fixture(params=["fake", "real"] if importlib.util.find_spec("deepmind_lab") else ["fake"])
def simulator(request):
    """The `deepmind_lab` under test."""
    if request.param == "fake":
        request.getfixturevalue("fake")


def start(level, **settings):
    """The environment after a reset, and the stand-in in it."""
    env = DMLabEnv(DMLab(level=level, **settings))
    env.reset(seed=1)
    return env, env._lab


def test_conformance(simulator):
    check_suite(DMLab(level=PREBUILT, num_action_repeats=60), steps=25)


def test_maps_are_compiled_once(fake, tmp_path):
    written = set()
    for _ in range(2):
        start("explore_goal_locations_small", level_cache=str(tmp_path / "cache"))
        (compiled,) = tmp_path.glob("cache/*/*.pk3")
        written.add(compiled.stat().st_mtime_ns)
    assert len(written) == 1


def test_an_episode_is_made_of_raw_actions_and_its_last_frame_is_shown_again(fake, tmp_path, monkeypatch):
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    env, lab = start("lt_chasm", num_action_repeats=4)  # 18 frames
    assert [env.step(FORWARD)[1], env.step(BACKWARD)[1], env.step(np.int32(FIRE))[1]] == [1.0, -1.0, 4.0]
    before, _, terminated, _, _ = env.step(FIRE)
    frame, *results = env.step(FIRE)
    assert (terminated, results, np.array_equal(frame, before)) == (False, [2.0, True, False, {}], True)
    assert lab.renderings == 5, "of the reset and four steps; the end can't be seen"
    assert np.ravel([action for action, _ in lab.actions[:2]]).tolist() == list(DEFAULT_ACTIONS[:14])
    assert not np.array_equal(env.reset()[0], env.reset()[0]), "later episodes have seeds of their own"
    assert len(os.listdir(tmp_path / "temporary")) == 1
    env.close()
    assert os.listdir(tmp_path / "temporary") == []


def test_settings_reach_the_simulator_as_strings(fake):
    settings = {"held_out": True, "dataset_path": "/pictures", "renderer": "hardware"}
    env, lab = start("language_select_described_object", **settings)
    own = {"width": "96", "height": "72", "allowHoldOutLevels": "true", "mixerSeed": "1611489005"}
    assert (lab.arguments["config"], lab.arguments["renderer"]) == (own | {"datasetPath": "/pictures"}, "hardware")
    assert env.observation_space.contains(env.reset(seed=1)[0]), "with the instruction"


def test_words_are_numbered_by_a_hash():
    ids = word_ids('Pick "the" - RED  ball: the?')
    assert (ids.dtype, ids.shape) == (np.uint16, (16,))
    assert ids[1] == ids[4] != ids[0]
    assert ids[5:].tolist() == [0] * 11
    ids = word_ids("balloon saxophone blue cow chair four spoon behind mug near grey reach least which colour fewer a")
    assert len(set(ids.tolist())) == 16, "words of the levels have numbers of their own"
    assert 0 < ids.min() <= ids.max() <= VOCABULARY


def test_anything_missing_on_an_actor_is_said(fake, tmp_path):
    (tmp_path / "libdmlab_headless_hw.so").unlink()
    for level, renderer, word in ("no/such", "software", "not found"), (PREBUILT, "hardware", "_hw.so"):
        with pytest.raises(CannotBuild, match=word):
            start(level, renderer=renderer)
