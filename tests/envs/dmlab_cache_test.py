import io
import json
import os
import pathlib
import subprocess
import sys
import zipfile

import fsspec
import fsspec.implementations.memory
import pytest

from seed_rl.envs.base import CannotBuild
from seed_rl.envs.dmlab.cache import LevelCache, entry_name, is_pk3

KEY = "0123456789abcdef"

# Wait until standard input is closed, then start an episode for each seed, in an order that differs between processes.
PLAY = """
import json, random, sys
from seed_rl.envs.dmlab.cache import LevelCache
from tests.support.fake_deepmind_lab import COMPILING, Lab, compiled
labs = [Lab(COMPILING, ["RGB_INTERLEAVED"], level_cache=LevelCache(sys.argv[1])) for _ in "ab"]
seeds = json.loads(sys.argv[2])
random.Random(int(sys.argv[3])).shuffle(seeds)
print("ready", flush=True)
sys.stdin.read()
for seed in seeds:
    for lab in labs:
        lab.reset(seed=seed)
print(json.dumps(compiled))
"""


def pk3(path, contents=b"map"):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("maps/a.bsp", contents)
    return path


def files(directory):
    return sorted(path.relative_to(directory).as_posix() for path in directory.rglob("*") if path.is_file())


@pytest.mark.parametrize("prefix", ["", "file://", "memory://", "dir::memory://"])
def test_any_process_fetches_the_map_that_was_written_last(prefix, tmp_path):
    place, fetched = f"{prefix}{tmp_path}/cache", tmp_path / "fetched.pk3"
    cache = LevelCache(place)
    assert cache.fetch(KEY, str(fetched)) is False
    assert not fetched.exists()
    for contents in (b"first", b"second"):
        cache.write(KEY, str(pk3(tmp_path / "written.pk3", contents)))
        assert LevelCache(place).fetch(KEY, str(fetched)) is True
        assert zipfile.ZipFile(fetched).read("maps/a.bsp") == contents
    assert cache.fetch(KEY + "1", str(tmp_path / "other.pk3")) is False
    if "memory" not in prefix:
        assert files(tmp_path / "cache") == [entry_name(KEY)], "nothing else is left there"


def damaged(kind):
    buffer = io.BytesIO()
    pk3(buffer, bytes(range(256)) * 100)
    whole = bytearray(buffer.getvalue())
    if kind == "flipped":
        whole[1000] ^= 1
    return {"empty": b"", "cut off": whole[:-100], "flipped": whole, "no members": b"PK\x05\x06" + bytes(18)}[kind]


@pytest.mark.parametrize("kind", ["empty", "cut off", "flipped", "no members"])
def test_a_damaged_entry_is_a_miss_until_it_is_written_again(kind, tmp_path, caplog):
    cache, fetched = LevelCache(str(tmp_path / "cache")), tmp_path / "fetched.pk3"
    entry = tmp_path / "cache" / entry_name(KEY)
    entry.parent.mkdir(parents=True)
    entry.write_bytes(damaged(kind))
    assert cache.fetch(KEY, str(fetched)) is False
    assert not fetched.exists()
    assert "damaged entry" in caplog.text
    cache.write(KEY, str(pk3(tmp_path / "written.pk3")))
    assert cache.fetch(KEY, str(fetched)) is True


class Broken(fsspec.implementations.memory.MemoryFileSystem):
    """Every transfer fails, halfway."""

    protocol = "broken"

    def get_file(self, remote, path, **arguments):
        pathlib.Path(path).write_bytes(b"PK")
        raise OSError(110, "Connection timed out")

    def _open(self, path, mode="rb", **arguments):
        raise PermissionError(13, "Read-only file system")


def test_a_store_out_of_reach_is_logged_once_and_never_raised(tmp_path, caplog):
    fsspec.register_implementation("broken", Broken, clobber=True)
    cache, path = LevelCache("broken://cache"), tmp_path / "a.pk3"
    for _ in range(3):
        assert cache.fetch(KEY, str(path)) is False
        assert not path.exists()
        cache.write(KEY, str(pk3(path)))
    assert [record.getMessage() for record in caplog.records] == [
        "the level cache can't read; maps are compiled instead (logged once): [Errno 110] Connection timed out",
        "the level cache can't write; maps are compiled instead (logged once): [Errno 13] Read-only file system",
    ]


def test_a_cache_that_cannot_be_a_directory_is_no_cache(tmp_path, caplog):
    (tmp_path / "file").write_text("not a directory")
    cache = LevelCache(str(tmp_path / "file"))
    assert cache.fetch(KEY, str(tmp_path / "fetched.pk3")) is False
    cache.write(KEY, str(pk3(tmp_path / "written.pk3")))
    assert "the level cache can't write" in caplog.text


def test_only_complete_maps_are_written(tmp_path, caplog):
    (tmp_path / "half.pk3").write_bytes(b"PK\x03\x04")
    LevelCache(str(tmp_path / "cache")).write(KEY, str(tmp_path / "half.pk3"))
    assert not (tmp_path / "cache").exists()
    assert "not a pk3 file" in caplog.text


def test_an_unknown_kind_of_place_is_refused(monkeypatch):
    with pytest.raises(CannotBuild, match="the level cache nowhere://a can't be opened: .*nowhere"):
        LevelCache("nowhere://a")
    monkeypatch.setitem(sys.modules, "fsspec.core", None)
    with pytest.raises(CannotBuild, match="needs fsspec: pip install"):
        LevelCache("gs://bucket/levels")
    LevelCache("/some/directory")


def test_many_processes_share_a_directory(tmp_path):
    def play(count):
        """The keys that each of some processes compiled."""
        stdin, start = os.pipe()
        command = [sys.executable, "-c", PLAY, str(tmp_path), json.dumps(seeds)]
        pipes = {"stdin": stdin, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        playing = [subprocess.Popen([*command, str(n)], **pipes) for n in range(count)]
        ready = [process.stdout.readline() for process in playing]
        os.close(start)  # now
        outputs = [process.communicate(timeout=120) for process in playing]
        os.close(stdin)
        assert [error for _, error in outputs] == [""] * count, "no warning"
        assert ready == ["ready\n"] * count
        return [json.loads(output) for output, _ in outputs]

    seeds = [1, 2, 3, 4]
    first = play(4)
    entries = files(tmp_path)
    assert len(entries) == len(seeds)
    assert all(is_pk3(str(tmp_path / name)) for name in entries)
    # A process compiles a map at most once, and only those that met over a missing map compile it twice.
    assert all(len(keys) == len(set(keys)) for keys in first)
    assert sorted(entry_name(key) for key in {key for keys in first for key in keys}) == entries
    assert play(1) == [[]]
