import io
import json
import logging
import os
import pathlib
import re
import subprocess
import sys
import zipfile

import fsspec
import fsspec.implementations.memory
import pytest

from seed_rl.envs.dmlab_cache import LevelCache, entry_name, is_pk3, open_cache
from seed_rl.envs.registry import CannotBuild
from tests.support import fake_deepmind_lab
from tests.support.fake_deepmind_lab import Lab

ROOT = pathlib.Path(__file__).resolve().parents[2]
COMPILING = "contributed/dmlab30/explore_goal_locations_small"
KEY = "0123456789abcdef"

# A process that waits for a line and then starts an episode of each of some seeds, in its own order.
PLAY = f"""
import json, random, sys
from seed_rl.envs.dmlab_cache import open_cache
from tests.support import fake_deepmind_lab
labs = [fake_deepmind_lab.Lab({COMPILING!r}, ["RGB_INTERLEAVED"], level_cache=open_cache(sys.argv[1])) for _ in "ab"]
seeds = json.loads(sys.argv[2])
random.Random(int(sys.argv[3])).shuffle(seeds)
print("ready", flush=True)
sys.stdin.readline()
for seed in seeds:
    for lab in labs:
        lab.reset(seed=seed)
print(json.dumps(fake_deepmind_lab.compiled))
"""


def pk3(path, contents=b"map"):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("maps/a.bsp", contents)
    return path


def files(directory):
    return sorted(path.relative_to(directory).as_posix() for path in directory.rglob("*") if path.is_file())


def play_in_processes(location, seeds, count):
    """The keys that each of the processes compiled."""
    command = [sys.executable, "-c", PLAY, str(location), json.dumps(seeds)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    playing = [subprocess.Popen([*command, str(n)], env=environment, **pipes) for n in range(count)]
    compiled = []
    try:
        for process in playing:
            assert process.stdout.readline() == "ready\n"
        for process in playing:  # all are there: now
            process.stdin.write("\n")
            process.stdin.flush()
        for process in playing:
            out, err = process.communicate(timeout=120)
            assert process.returncode == 0, err
            assert err == ""  # nothing to warn of
            compiled.append(json.loads(out))
    finally:
        for process in playing:
            process.kill()
            process.wait()
    return compiled


@pytest.fixture(params=["directory", "file://", "memory://", "dir::memory://"])
def location(request, tmp_path):
    if request.param == "directory":
        return str(tmp_path / "cache")
    if request.param == "file://":
        return f"file://{tmp_path}/cache"
    if request.param == "memory://":
        return f"memory://{tmp_path}/cache"
    return f"dir::memory://{tmp_path}/cache"


def test_what_was_written_is_fetched_by_any_process(location, tmp_path):
    written, fetched = pk3(tmp_path / "written.pk3"), tmp_path / "fetched.pk3"
    cache = open_cache(location)
    assert cache.fetch(KEY, str(fetched)) is False
    assert not fetched.exists()
    cache.write(KEY, str(written))
    assert open_cache(location).fetch(KEY, str(fetched)) is True
    assert fetched.read_bytes() == written.read_bytes()
    assert cache.fetch(KEY + "1", str(tmp_path / "other.pk3")) is False


def test_a_second_write_replaces_the_first(location, tmp_path):
    cache, fetched = open_cache(location), tmp_path / "fetched.pk3"
    for contents in (b"first", b"second"):
        cache.write(KEY, str(pk3(tmp_path / "written.pk3", contents)))
    assert cache.fetch(KEY, str(fetched))
    assert zipfile.ZipFile(fetched).read("maps/a.bsp") == b"second"


def test_writing_leaves_nothing_but_the_entry(tmp_path):
    written = str(pk3(tmp_path / "written.pk3"))
    for location in (str(tmp_path / "a"), f"file://{tmp_path}/b"):
        open_cache(location).write(KEY, written)
    assert files(tmp_path / "a") == [entry_name(KEY)]
    assert files(tmp_path / "b") == [entry_name(KEY)]


def damaged(kind):
    buffer = io.BytesIO()
    pk3(buffer, bytes(range(256)) * 100)
    whole = bytearray(buffer.getvalue())
    if kind == "flipped":
        whole[1000] ^= 1
    return {
        "empty": b"",
        "cut off": bytes(whole[:-100]),
        "flipped": bytes(whole),
        "text": b"not found",
        "no members": b"PK\x05\x06" + bytes(18),
    }[kind]


@pytest.mark.parametrize("kind", ["empty", "cut off", "flipped", "text", "no members"])
def test_a_damaged_entry_is_a_miss_until_it_is_written_again(kind, tmp_path, caplog):
    cache, fetched = open_cache(str(tmp_path / "cache")), tmp_path / "fetched.pk3"
    entry = tmp_path / "cache" / entry_name(KEY)
    entry.parent.mkdir(parents=True)
    entry.write_bytes(damaged(kind))
    assert not is_pk3(str(entry))
    assert cache.fetch(KEY, str(fetched)) is False
    assert not fetched.exists()
    assert "damaged entry" in caplog.text
    cache.write(KEY, str(pk3(tmp_path / "written.pk3")))
    assert cache.fetch(KEY, str(fetched)) is True


def test_the_simulator_compiles_what_is_missing_or_damaged(tmp_path, monkeypatch):
    monkeypatch.setattr(fake_deepmind_lab, "compiled", [])

    def compilations_of_an_episode():
        before = len(fake_deepmind_lab.compiled)
        Lab(COMPILING, ["RGB_INTERLEAVED"], level_cache=open_cache(str(tmp_path))).reset(seed=1)
        return len(fake_deepmind_lab.compiled) - before

    assert [compilations_of_an_episode() for _ in range(3)] == [1, 0, 0]
    (entry,) = tmp_path.rglob("*.pk3")
    entry.write_bytes(entry.read_bytes()[:1000])
    assert [compilations_of_an_episode() for _ in range(2)] == [1, 0]


class BrokenStore:
    """Every call fails, halfway."""

    def __init__(self):
        self.calls = 0

    def get(self, name, path):
        self.calls += 1
        with open(path, "wb") as file:
            file.write(b"PK")
        raise OSError(110, "Connection timed out")

    def put(self, name, path):
        self.calls += 1
        raise PermissionError(13, "Read-only file system")


def test_a_store_out_of_reach_is_told_of_once_and_never_raised(tmp_path, caplog):
    store = BrokenStore()
    cache, path = LevelCache(store), tmp_path / "a.pk3"
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            assert cache.fetch(KEY, str(path)) is False
            assert not path.exists()
            cache.write(KEY, str(pk3(path)))
    assert store.calls == 6
    assert [record.getMessage() for record in caplog.records] == [
        "the level cache can't read, maps are compiled instead (told once): [Errno 110] Connection timed out",
        "the level cache can't write, maps are compiled instead (told once): [Errno 13] Read-only file system",
    ]


def test_a_cache_in_an_impossible_place_is_no_cache(tmp_path, caplog):
    (tmp_path / "file").write_text("not a directory")
    cache = open_cache(str(tmp_path / "file"))
    assert cache.fetch(KEY, str(tmp_path / "fetched.pk3")) is False
    cache.write(KEY, str(pk3(tmp_path / "written.pk3")))
    assert len(caplog.records) == 2


def test_what_is_no_map_is_not_kept(tmp_path, caplog):
    (tmp_path / "half.pk3").write_bytes(b"PK\x03\x04")
    open_cache(str(tmp_path / "cache")).write(KEY, str(tmp_path / "half.pk3"))
    open_cache(str(tmp_path / "cache")).write(KEY, str(tmp_path / "missing.pk3"))
    assert not (tmp_path / "cache").exists()
    assert "no pk3 file" in caplog.text


def test_entries_are_spread_over_folders_by_a_hash():
    names = {entry_name(str(n)) for n in range(1000)}
    assert len(names) == 1000
    assert len({name.partition("/")[0] for name in names}) > 200
    assert all(re.fullmatch("[0-9a-f]{2}/[0-9a-f]{62}.pk3", name) for name in names)


def test_an_unknown_kind_of_place_is_refused(monkeypatch):
    with pytest.raises(CannotBuild, match="the level cache nowhere://a can't be used here: .*nowhere"):
        open_cache("nowhere://a")
    monkeypatch.setitem(sys.modules, "fsspec", None)
    monkeypatch.setitem(sys.modules, "fsspec.core", None)
    with pytest.raises(CannotBuild, match="needs fsspec: pip install 'seed_rl\\[dmlab\\]'"):
        open_cache("memory://a")
    open_cache("/some/directory")


def test_many_processes_share_a_directory(tmp_path):
    seeds, processes = [1, 2, 3, 4, 5, 6], 16
    first = play_in_processes(tmp_path, seeds, processes)
    entries = files(tmp_path)
    assert len(entries) == len(seeds)
    assert all(name.endswith(".pk3") and is_pk3(str(tmp_path / name)) for name in entries)
    # A process compiles a map at most once, and only those that met over a missing map compile it twice.
    assert all(len(keys) == len(set(keys)) for keys in first)
    assert sorted(entry_name(key) for key in {key for keys in first for key in keys}) == entries
    second = play_in_processes(tmp_path, seeds, 2)
    assert second == [[], []]


def test_an_object_store_gets_the_file_in_one_step(tmp_path, monkeypatch):
    class Bucket(fsspec.implementations.memory.MemoryFileSystem):
        protocol = ("gs", "gcs")
        cachable = False

        def mv(self, path1, path2, **arguments):
            raise AssertionError("renaming is copying")

    monkeypatch.setattr(fsspec.core, "url_to_fs", lambda url: (Bucket(), f"{tmp_path}/bucket"))
    cache, fetched = open_cache("gs://bucket"), tmp_path / "fetched.pk3"
    cache.write(KEY, str(pk3(tmp_path / "written.pk3")))
    assert cache.fetch(KEY, str(fetched)) is True
