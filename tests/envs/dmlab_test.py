"""DeepMind Lab through the strict stand-in and, where it is installed, through the real simulator as well."""

import contextlib
import importlib.util
import os
import pathlib
import sys
import tempfile

import numpy as np
import pytest

from seed_rl.envs.base import CannotBuild, EnvironmentFailed
from seed_rl.envs.conformance import check_suite
from seed_rl.envs.dmlab import DEFAULT_ACTIONS, VOCABULARY, DMLab
from seed_rl.envs.dmlab.env import DMLabEnv, word_ids
from seed_rl.envs.dmlab.levels import REFERENCES, TEST_TWINS, path_of
from tests.support import fake_deepmind_lab

IS_INSTALLED = importlib.util.find_spec("deepmind_lab") is not None
PREBUILT = "seekavoid_arena_01"  # nothing to compile
COMPILING = "explore_goal_locations_small"
FORWARD, BACKWARD, FIRE = 0, 1, 8


@pytest.fixture
def fake(tmp_path, monkeypatch):
    """Makes `import deepmind_lab` find the stand-in, in spawned processes too: they inherit `sys.path`."""
    monkeypatch.syspath_prepend(fake_deepmind_lab.install(tmp_path))
    monkeypatch.delitem(sys.modules, "deepmind_lab", raising=False)
    monkeypatch.setattr(fake_deepmind_lab, "_runfiles", "")
    yield fake_deepmind_lab
    sys.modules.pop("deepmind_lab", None)


@pytest.fixture(params=["fake", "real"] if IS_INSTALLED else ["fake"])
def simulator(request):
    """The `deepmind_lab` under test."""
    if request.param == "fake":
        request.getfixturevalue("fake")


@pytest.fixture
def make_env(simulator):
    with contextlib.ExitStack() as made:

        def make(**settings):
            config = DMLab(**{"level": PREBUILT, **settings})
            return made.enter_context(contextlib.closing(DMLabEnv(config)))

        yield make


@pytest.fixture
def labs(fake, monkeypatch):
    """The fake simulators that are started."""
    import deepmind_lab

    started = []

    def start(level, observations, **arguments):
        lab = fake.Lab(level, observations, **arguments)
        lab.arguments = {"level": level, "observations": observations, **arguments}
        started.append(lab)
        return lab

    monkeypatch.setattr(deepmind_lab, "Lab", start)
    return started


def test_conformance(simulator):
    check_suite(DMLab(level=PREBUILT, num_action_repeats=60), steps=70)


def test_episodes_follow_from_the_seed_of_the_first(make_env):
    def first_frames(env, seed):
        return [env.reset(seed=seed)[0], *[env.reset()[0] for _ in range(2)]]

    env = make_env()
    one, again, other = first_frames(env, 1), first_frames(make_env(), np.int64(1)), first_frames(make_env(), 2**40)
    assert all(np.array_equal(a, b) for a, b in zip(one, again, strict=True))
    assert not any(np.array_equal(a, b) for a, b in zip(one, other, strict=True))
    make_env().reset(seed=None)


def test_maps_are_compiled_once_for_all_processes(simulator, tmp_path):
    cache = tmp_path / "cache"
    config = DMLab(level=COMPILING, level_cache=str(cache))

    def play():
        with contextlib.closing(config.make(1)) as env:
            frames, _ = env.reset(seed=1)
        return frames, {path: path.stat().st_mtime_ns for path in cache.rglob("*.pk3")}

    (compiled_frames, written), (cached_frames, kept) = play(), play()
    assert written
    assert kept == written
    assert np.array_equal(compiled_frames, cached_frames)


if IS_INSTALLED:

    @pytest.mark.parametrize("name", sorted({*REFERENCES, *TEST_TWINS}))
    def test_the_simulator_has_every_level(name):
        package = pathlib.Path(importlib.util.find_spec("deepmind_lab").origin).parent
        assert list(package.rglob(f"{path_of(name)}.lua"))


# Only the stand-in can show these.


def test_raw_actions_are_those_of_the_set_held_for_the_frames_of_a_step(labs):
    env = DMLabEnv(DMLab(level=PREBUILT, num_action_repeats=3))
    chosen = DMLabEnv(DMLab(level=PREBUILT, action_set=(0, 0, 0, 1, 0, 0, 0, 0, 5, 0, 0, 1, 0, 1)))
    env.reset(seed=1)
    chosen.reset(seed=1)
    for action in (*range(9), np.int32(0)):
        env.step(action)
    chosen.step(1)
    raw = [action.tolist() for action, _ in labs[0].actions]
    assert [number for action in raw[:9] for number in action] == list(DEFAULT_ACTIONS)
    assert raw[9] == raw[0]
    assert {num_steps for _, num_steps in labs[0].actions} == {3}
    assert [(action.tolist(), num_steps) for action, num_steps in labs[1].actions] == [([0, 5, 0, 0, 1, 0, 1], 4)]


def test_rewards_are_those_of_all_frames_and_the_last_frame_is_shown_again_at_the_end(labs):
    env = DMLabEnv(DMLab(level="lt_chasm", num_action_repeats=4))  # 18 frames
    env.reset(seed=1)
    assert [env.step(FORWARD)[1], env.step(BACKWARD)[1], env.step(FIRE)[1]] == [1.0, -1.0, 4.0]
    before, _, terminated, _, _ = env.step(FIRE)
    assert not terminated
    frame, *results = env.step(FIRE)
    assert results == [2.0, True, False, {}]
    assert np.array_equal(frame, before)
    assert labs[0].renderings == 5, "of the reset and four steps; the end can't be seen"
    with pytest.raises(RuntimeError, match="call reset to advance"):
        env.step(FORWARD)


def test_settings_reach_the_simulator_as_strings(labs, tmp_path):
    DMLabEnv(DMLab(level="rooms_watermaze")).reset(seed=1)
    library = tmp_path / "files" / fake_deepmind_lab.LIBRARIES["hardware"]
    library.parent.mkdir()
    library.touch()
    DMLabEnv(
        DMLab(
            level="contributed/dmlab30/rooms_watermaze",
            held_out=True,
            instructions=True,
            dataset_path="/pictures",
            runfiles_path=str(library.parent),
            renderer="hardware",
        )
    ).reset(seed=1)
    usual, chosen = (lab.arguments for lab in labs)
    size = {"width": "96", "height": "72"}
    own = {**size, "allowHoldOutLevels": "true", "mixerSeed": "1611489005", "datasetPath": "/pictures"}
    assert usual["level"] == chosen["level"] == "contributed/dmlab30/rooms_watermaze"
    assert (usual["config"], chosen["config"]) == (size, own)
    assert (usual["renderer"], chosen["renderer"]) == ("software", "hardware")
    assert (usual["observations"], chosen["observations"]) == (["RGB_INTERLEAVED"], ["RGB_INTERLEAVED", "INSTR"])
    assert usual["level_cache"] is None
    assert fake_deepmind_lab.runfiles_path() == str(library.parent)


def test_temporary_files_are_removed_however_environments_end(simulator, tmp_path, monkeypatch):
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    for level, errors in ((PREBUILT, contextlib.nullcontext()), ("no/such_level", pytest.raises(CannotBuild))):
        with contextlib.closing(DMLabEnv(DMLab(level=level))) as env:
            with errors:
                env.reset(seed=1)
            assert len(os.listdir(folder)) == 1
    assert os.listdir(folder) == []


def test_a_level_that_ends_its_process_is_named(fake):
    env, message = DMLab(level="no_map").make(1), r"level no_map \(DMLab.level\) ended in reset; its output says why"
    with contextlib.closing(env), pytest.raises(EnvironmentFailed, match=message):
        env.reset(seed=1)


def test_language_levels_give_their_instruction_in_words(make_env):
    env = make_env(level="language_select_described_object")
    observation, _ = env.reset(seed=1)
    assert env.observation_space.contains(observation)
    words = observation["instruction"]
    used = np.count_nonzero(words)
    assert 1 <= used <= 16
    assert words[:used].all()
    assert not DMLab(level="language_select_described_object", instructions=False).gives_instructions


def test_words_are_numbered_by_a_hash():
    ids = word_ids("Pick the RED ball the")
    assert (ids.dtype, ids.shape) == (np.uint16, (16,))
    assert ids[1] == ids[4] != ids[0]
    assert ids[5:].tolist() == [0] * 11
    assert word_ids('pick "the" - red  ball: the?').tolist() == ids.tolist()
    assert np.count_nonzero(word_ids("word " * 20)) == 16
    ids = word_ids("balloon saxophone blue cow chair four spoon behind mug near grey reach least which colour fewer")
    assert len(set(ids.tolist())) == 16, "words of the levels have numbers of their own"
    assert ids.max() <= VOCABULARY


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"level": "no/such_level"}, "DeepMind Lab level no/such_level can't be started: .*not found"),
        ({"runfiles_path": "/a", "renderer": "hardware"}, "no '/a/libdmlab_headless_hw.so', which .*'hardware' needs"),
        ({"level": "own_actions"}, "has other action components than DMLab.action_set: .*, SELECT_GADGET"),
    ],
)
def test_anything_missing_on_an_actor_is_named_in_a_sentence(fake, settings, message):
    with pytest.raises(CannotBuild, match=message):
        DMLabEnv(DMLab(**{"level": PREBUILT, **settings})).reset(seed=1)


@pytest.mark.parametrize("level", ["psychlab_continuous_recognition", "contributed/psychlab/continuous_recognition"])
def test_a_missing_data_set_is_named(level):
    with pytest.raises(CannotBuild, match="DMLab.dataset_path .* pictures that contributed/.* no '/tmp/0001.png' here"):
        DMLab(level=level, dataset_path="/tmp").make(1)


def test_a_package_that_is_missing_is_told_from_one_that_does_not_load(tmp_path, monkeypatch):
    monkeypatch.delitem(sys.modules, "deepmind_lab", raising=False)
    with monkeypatch.context() as without:
        without.setattr(importlib.util, "find_spec", lambda name: None)
        with pytest.raises(CannotBuild, match=r"needs deepmind_lab, which is not installed here: docs/dmlab.md says"):
            DMLab().make(1)
    (tmp_path / "deepmind_lab.py").write_text("raise ImportError('libOSMesa.so.8: cannot open')")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(CannotBuild, match=r"deepmind_lab can't be loaded: libOSMesa.so.8"):
        DMLabEnv(DMLab()).reset(seed=1)
