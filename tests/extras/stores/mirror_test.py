"""Runs whose log directories are in object stores."""

import os

import fsspec
import pytest

from seed_rl.errors import Failure
from seed_rl.extras.stores.mirror import Mirror, ObjectStore, working_directory
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
        """Fails."""
        if self.fails and name != ".seed_rl":
            raise ZeroDivisionError("division by zero")
        super().send(file, name)


def content(url):
    store, root = fsspec.core.url_to_fs(url)
    return {path.partition(root)[2].lstrip("/"): store.cat_file(path) for path in store.find(root)}


def write(directory, name, data):
    path = os.path.join(directory, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(data)


@pytest.mark.parametrize("url", emulators.KINDS, indirect=True)
def test_the_store_gets_the_files_of_a_run_and_the_next_run_starts_with_them(url):
    with working_directory(url) as directory:
        write(directory, "metrics.jsonl", b"one\n")
        write(directory, "checkpoints/checkpoint-1.npz", b"first")
        write(directory, "lock", b"")
        write(directory, "checkpoint-2.npz.partial", b"half of it")
        with pytest.raises(CannotUse, match=f"another learner is running in {url}"):
            working_directory(url).__enter__()
    assert content(url) == {"metrics.jsonl": b"one\n", "checkpoints/checkpoint-1.npz": b"first"}
    assert not os.path.exists(directory), "nothing is left on this machine"

    # A killed learner left files here, and the run continued on another machine.
    write(directory, "metrics.jsonl", b"stale\n")
    write(directory, "checkpoints/checkpoint-0.npz", b"stale")
    with working_directory(url) as directory:
        with open(os.path.join(directory, "metrics.jsonl"), "ab") as file:
            assert file.tell() == 4
            file.write(b"two\n")
        assert os.listdir(os.path.join(directory, "checkpoints")) == ["checkpoint-1.npz"]
        os.remove(os.path.join(directory, "checkpoints/checkpoint-1.npz"))
        write(directory, "checkpoints/checkpoint-2.npz", b"second")
    assert content(url) == {"metrics.jsonl": b"one\ntwo\n", "checkpoints/checkpoint-2.npz": b"second"}


def test_an_old_checkpoint_is_removed_when_the_new_one_has_arrived(url, tmp_path):
    store = FailingStore(url)
    mirror = Mirror(store, str(tmp_path / "here"))
    store.fails = False
    write(tmp_path / "here", "checkpoints/checkpoint-1.npz", b"first")
    mirror.push()
    os.remove(tmp_path / "here/checkpoints/checkpoint-1.npz")
    write(tmp_path / "here", "checkpoints/checkpoint-2.npz", b"second")
    store.fails = True
    with pytest.raises(ZeroDivisionError):
        mirror.push()
    assert content(url) == {"checkpoints/checkpoint-1.npz": b"first"}
    store.fails = False
    store.remove("checkpoints/checkpoint-1.npz")  # by somebody else
    write(tmp_path / "here", "learner.log", b"much")
    mirror.push()
    os.remove(tmp_path / "here/learner.log")
    mirror.push()
    assert content(url) == {"checkpoints/checkpoint-2.npz": b"second", "learner.log": b"much"}, "only checkpoints go"


def test_a_bucket_writes_nowhere_but_into_the_directory(url, monkeypatch):
    with working_directory(url) as directory:
        write(directory, "metrics.jsonl", b"one\n")
    store, root = fsspec.core.url_to_fs(url)
    monkeypatch.setattr(store, "find", lambda *_, **__: {f"{root}/a/../../outside": {"type": "file"}})
    monkeypatch.setattr(store, "get_file", lambda *_: pytest.fail("something was fetched"))
    with pytest.raises(Failure, match=f"^{url} can't be read: expected a file name inside of the directory, got "):
        working_directory(url).__enter__()


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


def test_changes_are_sent_while_the_run_continues_even_if_the_store_fails_for_a_while(
    url, wait_for, caplog, monkeypatch
):
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


def test_the_next_start_continues_from_a_directory_that_is_ahead_of_the_store(url, monkeypatch):
    with working_directory(url) as directory:
        write(directory, "checkpoints/checkpoint-1.npz", b"first")
    unreachable = pytest.raises(
        Failure, match=f"{url} can't be written: division by zero; the end of the run is in {directory}"
    )
    with monkeypatch.context() as patched, unreachable:
        patched.setattr("seed_rl.extras.stores.mirror.ObjectStore", FailingStore)
        with working_directory(url):
            write(directory, "checkpoints/checkpoint-2.npz", b"second")
    assert content(url) == {"checkpoints/checkpoint-1.npz": b"first"}
    with working_directory(url):
        os.remove(os.path.join(directory, "checkpoints/checkpoint-1.npz"))
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
