"""Object stores, and runs whose log directories are there."""

import contextlib
import os
import pathlib

import fsspec
import pytest

from seed_rl.errors import Failure
from seed_rl.extras.stores.mirror import Mirror, ObjectStore, reaching, working_directory
from seed_rl.runs.run_directory import CannotUse
from tests.extras.stores import emulators


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def url(request, tmp_path):
    """A directory in an object store, in memory unless a test asks for another kind."""
    return emulators.directory(getattr(request, "param", "memory"), tmp_path / "store/run")


class FailingStore(ObjectStore):
    """Can't be written at times, after the check at the start."""

    fails = True

    def send(self, file, name):
        if self.fails and name != ".seed_rl":
            raise ZeroDivisionError("division by zero")
        super().send(file, name)


def content(url):
    store, root = fsspec.core.url_to_fs(url)
    return {path.partition(root)[2].lstrip("/"): store.cat_file(path) for path in store.find(root)}


def write(directory, name, data):
    path = pathlib.Path(directory, name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


def files_in(url):
    return ObjectStore(url).files()


@pytest.mark.parametrize("url", emulators.KINDS, indirect=True)
def test_complete_files_are_found_and_fetched_and_a_missing_directory_is_empty(url, tmp_path):
    store, root = fsspec.core.url_to_fs(url, skip_instance_cache=True)  # as on another machine
    stored = []
    for *names, last in (("checkpoints/checkpoint-1.npz", "metrics.jsonl"), ("half.partial", "later")):
        for name in (*names, last):
            store.makedirs(os.path.dirname(f"{root}/{name}"), exist_ok=True)
            store.pipe_file(f"{root}/{name}", name.encode())
        stored += [*names, last]
        assert files_in(url) == files_in(f"{url}/") == sorted(name for name in stored if name != "half.partial")
    assert files_in(f"{url}/checkpoints") == ["checkpoint-1.npz"]
    assert files_in(f"{url}/nothing") == files_in(f"{url}/metrics.jsonl") == files_in(f"{url}/metrics") == []
    ObjectStore(url).fetch("checkpoints/checkpoint-1.npz", str(tmp_path / "here"))
    assert (tmp_path / "here").read_bytes() == b"checkpoints/checkpoint-1.npz"
    ObjectStore(url).remove("nothing")
    with pytest.raises(FileNotFoundError):
        ObjectStore(url).fetch("nothing", str(tmp_path / "here"))


@pytest.mark.parametrize("name", [".", "..", "/a", "a//b", "./a", "a/.", "../a", "a/../b", "a/../../b", "a\0b"])
def test_a_store_that_names_a_file_outside_of_the_directory_is_refused(name, url, monkeypatch):
    store, root = fsspec.core.url_to_fs(url)
    monkeypatch.setattr(store, "get_file", lambda *_: pytest.fail("something was fetched"))
    monkeypatch.setattr(store, "find", lambda *_, **__: {f"{root}/..a/b..": {}})
    assert files_in(url) == ["..a/b.."]
    monkeypatch.setattr(store, "find", lambda *_, **__: {f"{root}/{name}": {}})
    with pytest.raises(Failure, match=f"^{url} can't be read: expected a file name inside of the directory, got "):
        working_directory(url).__enter__()


@pytest.mark.parametrize("kind", emulators.WITH_BUCKETS)
def test_a_mistyped_bucket_is_empty_for_readers_and_not_created_for_writers(kind, tmp_path):
    ObjectStore(emulators.directory(kind, tmp_path)).check_writable()
    mistyped = f"{kind}://mistyped/run"
    assert files_in(mistyped) == []
    missing = pytest.raises(CannotUse, match=f"^{mistyped} can't be written: there is no bucket mistyped$")
    with missing, reaching(mistyped, "written"):
        ObjectStore(mistyped).check_writable()
    assert emulators.buckets(kind) == ["bucket"]


@pytest.mark.parametrize("url", emulators.WITH_BUCKETS, indirect=True)
def test_keys_that_stand_for_directories_are_no_files(url):
    store, root = fsspec.core.url_to_fs(url)
    for name in ("", "checkpoints/", "metrics.jsonl"):
        store.pipe_file(f"{root}/{name}", b"")
    assert files_in(url) == ["metrics.jsonl"]


@pytest.mark.parametrize("url", emulators.KINDS, indirect=True)
def test_the_store_gets_the_files_of_a_run_and_the_next_run_starts_with_them(url):
    with working_directory(url) as directory:
        write(directory, "metrics.jsonl", b"one\n")
        write(directory, "learner.log", b"much")
        write(directory, "checkpoints/checkpoint-1.npz", b"first")
        write(directory, "lock", b"")
        write(directory, "checkpoint-2.npz.partial", b"half of it")
        with pytest.raises(Failure, match=f"another learner is running in {url}"):
            working_directory(url).__enter__()
    kept = {"learner.log": b"much"}
    assert content(url) == kept | {"metrics.jsonl": b"one\n", "checkpoints/checkpoint-1.npz": b"first"}
    assert not os.path.exists(directory), "nothing is left on this machine"

    # A killed learner left files here, and the run continued on another machine.
    write(directory, "metrics.jsonl", b"stale\n")
    write(directory, "checkpoints/checkpoint-0.npz", b"stale")
    with working_directory(url) as directory:
        with open(os.path.join(directory, "metrics.jsonl"), "ab") as file:
            assert file.tell() == 4
            file.write(b"two\n")
        assert os.listdir(os.path.join(directory, "checkpoints")) == ["checkpoint-1.npz"]
        for name in ("learner.log", "checkpoints/checkpoint-1.npz"):
            os.remove(os.path.join(directory, name))
        write(directory, "checkpoints/checkpoint-2.npz", b"second")
    new = {"metrics.jsonl": b"one\ntwo\n", "checkpoints/checkpoint-2.npz": b"second"}
    assert content(url) == kept | new, "of what was removed, only checkpoints go"


def test_a_learner_that_is_killed_while_it_sends_leaves_no_torn_file(url, tmp_path, monkeypatch):
    mirror = Mirror(ObjectStore(url), str(tmp_path / "here"))
    write(tmp_path / "here", "checkpoints/checkpoint-1.npz", b"first")
    mirror.push()

    def send_half(file, upload):
        upload.write(file.read()[:3])
        raise SystemExit("killed")

    write(tmp_path / "here", "checkpoints/checkpoint-2.npz", b"second")
    with monkeypatch.context() as patched:
        patched.setattr("seed_rl.extras.stores.mirror.shutil.copyfileobj", send_half)
        with pytest.raises(SystemExit):
            mirror.push()
    assert len(content(url)) == 2, "half of the second is there"
    with working_directory(url) as directory:
        assert os.listdir(os.path.join(directory, "checkpoints")) == ["checkpoint-1.npz"]
    assert content(url) == {"checkpoints/checkpoint-1.npz": b"first"}


def test_changes_are_sent_during_the_run_even_if_the_store_fails_for_a_while(url, wait_for, caplog, monkeypatch):
    store, (files, path) = FailingStore(url), fsspec.core.url_to_fs(f"{url}/metrics.jsonl")
    monkeypatch.setattr("seed_rl.extras.stores.mirror.ObjectStore", lambda _: store)
    with working_directory(url, seconds=0.02) as directory:
        write(directory, "metrics.jsonl", b"one\n")
        wait_for(lambda: f"files in {url} can't be written (division by zero): training continues" in caplog.text)
        store.fails = False
        for data in (b"one\n", b"one\ntwo\n"):
            write(directory, "metrics.jsonl", data)
            wait_for(lambda data=data: files.cat([path], on_error="omit") == {path: data})
    assert "can be written again" in caplog.text


def test_the_next_start_continues_from_a_directory_that_is_ahead_of_the_store(url, monkeypatch, caplog):
    with contextlib.suppress(InterruptedError), working_directory(url) as directory:
        write(directory, "checkpoints/checkpoint-1.npz", b"first")
        raise InterruptedError
    assert not os.path.exists(directory), "an old copy could bring back what is removed in the store"
    sentence = f"{url} can't be written: division by zero; the end of the run is in {directory}"
    unreachable = pytest.raises(Failure, match=sentence)
    with monkeypatch.context() as patched, unreachable:
        patched.setattr("seed_rl.extras.stores.mirror.ObjectStore", FailingStore)
        with working_directory(url):
            os.remove(os.path.join(directory, "checkpoints/checkpoint-1.npz"))
            write(directory, "checkpoints/checkpoint-2.npz", b"second")
    assert content(url) == {"checkpoints/checkpoint-1.npz": b"first"}, "the old one stays until the new one is there"
    assert "continues from" not in caplog.text
    with working_directory(url):
        pass
    assert f"continues from checkpoints/checkpoint-2.npz in {directory}" in caplog.text
    assert content(url) == {"checkpoints/checkpoint-2.npz": b"second"}, "what was removed here is removed there"


def test_a_replay_arrives_before_its_checkpoint_and_other_hosts_files_are_left_alone(url, tmp_path, monkeypatch):
    with working_directory(f"{url}/host-1") as directory:
        write(directory, "metrics.jsonl", b"of host 1")
    store = ObjectStore(url)
    mirror, sent = Mirror(store, str(tmp_path / "here")), []
    monkeypatch.setattr(store, "send", lambda file, name: sent.append(name))
    for number in (1, 2):
        write(tmp_path / "here", f"checkpoints/checkpoint-{number}.npz", b"weights")
        write(tmp_path / "here", f"checkpoints/replay-{number}.npz", b"much")
    mirror.push()
    assert [name.partition("-")[0] for name in sent] == ["checkpoints/replay"] * 2 + ["checkpoints/checkpoint"] * 2
    monkeypatch.undo()
    with working_directory(url) as directory:
        assert not os.path.exists(os.path.join(directory, "host-1"))
    assert content(url)["host-1/metrics.jsonl"] == b"of host 1"
