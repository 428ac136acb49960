"""DeepMind Lab through a stand-in and, where it is installed, through the real simulator as well; its level cache."""

import importlib.util
import io
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
LANGUAGE = "language_select_described_object"
FORWARD, BACKWARD, FIRE = 0, 1, 8


@pytest.fixture
def fake(tmp_path, monkeypatch):
    """Makes `import deepmind_lab` find the stand-in, in spawned processes too: they inherit `sys.path`."""
    fake_deepmind_lab.install(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "deepmind_lab", raising=False)
    yield
    sys.modules.pop("deepmind_lab", None)


def test_conformance(request):
    if importlib.util.find_spec("deepmind_lab") is None:
        request.getfixturevalue("fake")
    check_suite(DMLab(level=PREBUILT, num_action_repeats=60), steps=25)


def test_settings_are_strings_maps_are_compiled_once_and_the_last_frame_is_shown_again(fake, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    own = {"held_out": True, "dataset_path": "/pictures", "renderer": "hardware"}
    config = DMLab(level=LANGUAGE, level_cache=str(tmp_path / "cache"), **own)
    written = set()
    for _ in range(2):
        env = DMLabEnv(config)
        assert env.observation_space.contains(env.reset(seed=1)[0]), "with the instruction"
        written.add((tmp_path / "cache" / entry_name("1")).stat().st_mtime_ns)
        lab, (folder,) = env._lab, tmp_path.glob("dmlab_temp*")
        rewards = [env.step(action)[1] for action in (FORWARD, BACKWARD, np.int32(FIRE), FIRE)]
        before = env.step(FORWARD)[0]["frame"]  # after 20 of 22 frames
        last, *ends, _ = env.step(FIRE)
        assert [*rewards, *ends] == [1.0, -1.0, 4.0, 4.0, 2.0, True, False]
        np.testing.assert_array_equal(last["frame"], before)
        assert lab.renderings == 6, "of the reset and five steps"
        first, second = (env.reset()[0]["frame"] for _ in range(2))
        assert not np.array_equal(first, second), "later episodes have seeds of their own"
        env.close()
        assert not folder.exists()
    assert len(written) == 1
    assert np.ravel(lab.actions[:2]).tolist() == list(DEFAULT_ACTIONS[:14])
    strings = {"width": "96", "height": "72", "allowHoldOutLevels": "true", "mixerSeed": "1611489005"}
    assert lab.settings == strings | {"datasetPath": "/pictures", "renderer": "hardware"}


def test_levels_are_those_of_training_unless_others_are_asked_for(fake):
    env = DMLabEnv(DMLab(level=PREBUILT))
    env.reset(seed=1)
    assert env._lab.settings == {"width": "96", "height": "72", "renderer": "software"}


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
        DMLabEnv(DMLab(level=level, renderer=renderer)).reset(seed=1)


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
