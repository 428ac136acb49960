import io
import zipfile

import fsspec
import pytest

from seed_rl.envs.dmlab.cache import LevelCache, entry_name

KEY = "0123456789abcdef"


def pk3(contents):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("maps/a.bsp", contents)
    return buffer.getvalue()


WHOLE = pk3(bytes(range(256)) * 100)
DAMAGED = {"cut off": WHOLE[:-100], "no members": b"PK\x05\x06" + bytes(18)}


@pytest.fixture
def compiled(tmp_path):
    """Makes the file of a compiled map; returns its path."""
    path = tmp_path / "written.pk3"
    return lambda contents: path.write_bytes(contents) and str(path)


@pytest.mark.parametrize("prefix", ["", "memory://"])
def test_any_process_fetches_the_map_that_was_written_last(prefix, tmp_path, compiled):
    place, fetched = f"{prefix}{tmp_path}/cache", tmp_path / "fetched.pk3"
    cache = LevelCache(place)
    assert cache.fetch(KEY, str(fetched)) is False
    assert not fetched.exists()
    for contents in (pk3(b"first"), pk3(b"second")):
        cache.write(KEY, compiled(contents))
        assert LevelCache(place).fetch(KEY, str(fetched)) is True
        assert fetched.read_bytes() == contents
    assert cache.fetch(KEY + "1", str(tmp_path / "other.pk3")) is False
    store, root = fsspec.core.url_to_fs(place)
    assert store.find(root) == [f"{root}/{entry_name(KEY)}"], "nothing else is left there"


@pytest.mark.parametrize("kind", DAMAGED)
def test_a_damaged_entry_is_a_miss_until_a_complete_map_is_written(kind, tmp_path, compiled, caplog):
    cache, fetched = LevelCache(str(tmp_path / "cache")), tmp_path / "fetched.pk3"
    entry = tmp_path / "cache" / entry_name(KEY)
    entry.parent.mkdir(parents=True)
    entry.write_bytes(DAMAGED[kind])
    assert cache.fetch(KEY, str(fetched)) is False
    assert not fetched.exists()
    assert "can't be read" in caplog.text
    cache.write(KEY, compiled(DAMAGED[kind]))
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
