"""DeepMind Lab through a stand-in and, where it is installed, through the real simulator as well; its level cache."""

import importlib.util
import io
import os
import sys
import tempfile
import zipfile

import fsspec
import numpy as np
import pytest

from seed_rl.envs.base import CannotBuild
from seed_rl.envs.conformance import check_suite
from seed_rl.envs.dmlab import DEFAULT_ACTIONS, VOCABULARY, DMLab
from seed_rl.envs.dmlab.cache import LevelCache, entry_name
from seed_rl.envs.dmlab.env import DMLabEnv, word_ids
from tests.support import fake_deepmind_lab

PREBUILT = "seekavoid_arena_01"  # nothing to compile
FORWARD, BACKWARD, FIRE = 0, 1, 8


@pytest.fixture
def fake(tmp_path, monkeypatch):
    """Makes `import deepmind_lab` find the stand-in, in spawned processes too: they inherit `sys.path`."""
    fake_deepmind_lab.install(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
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


def test_settings_reach_the_simulator_as_strings_and_maps_are_compiled_once(fake, tmp_path):
    settings = {"held_out": True, "dataset_path": "/pictures", "renderer": "hardware"}
    written = set()
    for _ in range(2):
        env, lab = start("language_select_described_object", level_cache=str(tmp_path / "cache"), **settings)
        (compiled,) = tmp_path.glob("cache/*/*.pk3")
        written.add(compiled.stat().st_mtime_ns)
    assert len(written) == 1
    own = {"width": "96", "height": "72", "allowHoldOutLevels": "true", "mixerSeed": "1611489005"}
    assert lab.settings == own | {"datasetPath": "/pictures", "renderer": "hardware"}
    assert env.observation_space.contains(env.reset(seed=1)[0]), "with the instruction"


def test_an_episode_is_made_of_raw_actions_and_its_last_frame_is_shown_again(fake, tmp_path, monkeypatch):
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    env, lab = start("lt_chasm", num_action_repeats=4)  # 18 frames
    assert [env.step(FORWARD)[1], env.step(BACKWARD)[1], env.step(np.int32(FIRE))[1]] == [1.0, -1.0, 4.0]
    before, _, terminated, _, _ = env.step(FIRE)
    frame, *results = env.step(FIRE)
    assert (terminated, results, np.array_equal(frame, before)) == (False, [2.0, True, False, {}], True)
    assert lab.renderings == 5, "of the reset and four steps; the end can't be seen"
    assert np.ravel(lab.actions[:2]).tolist() == list(DEFAULT_ACTIONS[:14])
    assert not np.array_equal(env.reset()[0], env.reset()[0]), "later episodes have seeds of their own"
    assert len(os.listdir(tmp_path / "temporary")) == 1
    env.close()
    assert os.listdir(tmp_path / "temporary") == []


def test_words_are_numbered_by_a_hash():
    ids = word_ids('Pick "the" - RED  ball: the?')
    assert (ids.dtype, ids.shape) == (np.uint16, (16,))
    assert ids[1] == ids[4] != ids[0]
    assert ids[5:].tolist() == [0] * 11
    ids = word_ids("balloon saxophone blue cow chair four spoon behind mug near grey reach least which colour fewer a")
    assert len(set(ids.tolist())) == 16, "words of the levels have numbers of their own"
    assert 0 < ids.min() <= ids.max() <= VOCABULARY


@pytest.mark.parametrize(
    ("level", "renderer", "word"), [("no/such", "software", "not found"), (PREBUILT, "hardware", "_hw.so")]
)
def test_anything_missing_on_an_actor_is_said(fake, tmp_path, level, renderer, word):
    (tmp_path / "libdmlab_headless_hw.so").unlink()
    with pytest.raises(CannotBuild, match=word):
        start(level, renderer=renderer)


# The level cache.


KEY = "0123456789abcdef"


@pytest.fixture
def compiled(tmp_path):
    """Makes the file of a compiled map; returns its path."""
    path = tmp_path / "written.pk3"
    return lambda contents: path.write_bytes(contents) and str(path)


def pk3(contents):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("maps/a.bsp", contents)
    return buffer.getvalue()


WHOLE = pk3(bytes(range(256)) * 100)


@pytest.mark.parametrize("prefix", ["", "memory://"])
def test_any_process_fetches_the_map_that_was_written_last(prefix, tmp_path, compiled):
    place, fetched = f"{prefix}{tmp_path}/cache", tmp_path / "fetched.pk3"
    cache = LevelCache(place)
    for contents in (WHOLE, pk3(b"second")):
        cache.write(KEY, compiled(contents))
        assert LevelCache(place).fetch(KEY, str(fetched)) is True
        assert fetched.read_bytes() == contents
    assert cache.fetch(KEY + "1", str(tmp_path / "other.pk3")) is False
    assert not (tmp_path / "other.pk3").exists()
    store, root = fsspec.core.url_to_fs(place)
    assert store.find(root) == [f"{root}/{entry_name(KEY)}"], "nothing else is left there"


@pytest.mark.parametrize("damaged", [WHOLE[:-100], b"PK\x05\x06" + bytes(18)], ids=["cut off", "no members"])
def test_a_damaged_entry_is_a_miss_until_a_complete_map_is_written(damaged, tmp_path, compiled, caplog):
    cache, fetched = LevelCache(str(tmp_path / "cache")), tmp_path / "fetched.pk3"
    entry = tmp_path / "cache" / entry_name(KEY)
    entry.parent.mkdir(parents=True)
    entry.write_bytes(damaged)
    assert cache.fetch(KEY, str(fetched)) is False
    assert not fetched.exists()
    cache.write(KEY, compiled(damaged))
    assert "can't be read" in caplog.text
    assert "can't be written" in caplog.text
    cache.write(KEY, compiled(WHOLE))
    assert cache.fetch(KEY, str(fetched)) is True


def test_a_place_out_of_reach_is_logged_once_and_never_raised(tmp_path, compiled, caplog):
    place = __file__  # no directory
    cache = LevelCache(place)
    for _ in range(3):
        assert cache.fetch(KEY, str(tmp_path / "fetched.pk3")) is False
        cache.write(KEY, compiled(WHOLE))
    for verb, record in zip(("read", "written"), caplog.records, strict=True):
        assert f"maps in the level cache {place} can't be {verb}" in record.message
