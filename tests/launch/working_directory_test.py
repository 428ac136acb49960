"""Runs whose log directories are in object stores, of which fsspec has some that need no network."""

import os
import time

import fsspec
import fsspec.core
import pytest

from seed_rl.launch import working_directory as module
from seed_rl.launch.working_directory import Mirror, working_directory
from seed_rl.object_store import CannotReach


@pytest.fixture(params=["file", "memory"])
def url(request, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(module, "_PUSH_SECONDS", 0.02)
    return f"{request.param}://{tmp_path}/bucket/run"


@pytest.fixture
def wait_until():
    """Polls until a condition holds; fails if it does not within half a minute."""

    def wait(condition):
        deadline = time.monotonic() + 30
        while not condition():
            assert time.monotonic() < deadline
            time.sleep(0.01)

    return wait


def content(url):
    store, root = fsspec.core.url_to_fs(url)
    return {path.partition(root)[2].lstrip("/"): store.cat_file(path) for path in store.find(root)}


def write(directory, name, data):
    path = os.path.join(directory, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(data)


def test_what_a_run_leaves_is_in_the_store_and_the_next_begins_with_it(url, tmp_path):
    with working_directory(url) as directory:
        write(directory, "metrics.jsonl", b"one\n")
        write(directory, "checkpoints/checkpoint-1.npz", b"first")
        write(directory, "lock", b"")
        write(directory, "checkpoint-2.npz.partial", b"half of it")
    assert content(url) == {"metrics.jsonl": b"one\n", "checkpoints/checkpoint-1.npz": b"first"}

    assert not os.path.exists(directory), "nothing is left on this machine"

    # What a killed learner has left behind here is not what the store has: the run went on elsewhere.
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


def test_it_is_written_back_while_the_run_goes_on(url, wait_until):
    with working_directory(url) as directory:
        write(directory, "metrics.jsonl", b"one\n")
        wait_until(lambda: content(url).get("metrics.jsonl") == b"one\n")
        write(directory, "metrics.jsonl", b"one\ntwo\n")
        wait_until(lambda: content(url)["metrics.jsonl"] == b"one\ntwo\n")


def test_a_new_checkpoint_is_there_before_the_old_one_goes(url, tmp_path, monkeypatch):
    mirror = Mirror(url, str(tmp_path / "here"))
    write(tmp_path / "here", "checkpoints/checkpoint-1.npz", b"first")
    mirror.push()
    os.remove(tmp_path / "here/checkpoints/checkpoint-1.npz")
    write(tmp_path / "here", "checkpoints/checkpoint-2.npz", b"second")
    with monkeypatch.context() as broken:
        broken.setattr(mirror._store, "put_file", lambda *arguments: 1 / 0)
        with pytest.raises(OSError, match="division by zero"):
            mirror.push()
    assert content(url) == {"checkpoints/checkpoint-1.npz": b"first"}
    mirror.push()
    assert content(url) == {"checkpoints/checkpoint-2.npz": b"second"}


def test_a_store_that_fails_for_a_while_does_not_end_the_run(url, monkeypatch, caplog, wait_until):
    with working_directory(url) as directory:
        with monkeypatch.context() as broken:
            broken.setattr(Mirror, "_put", lambda self, name: 1 / 0)
            write(directory, "metrics.jsonl", b"one\n")
            wait_until(lambda: "can't be written" in caplog.text)
        wait_until(lambda: "can be written again" in caplog.text)
    assert content(url) == {"metrics.jsonl": b"one\n"}


def test_the_end_of_a_run_that_could_not_be_written_is_where_the_next_start_goes_on(url, monkeypatch):
    with working_directory(url) as directory:
        write(directory, "checkpoints/checkpoint-1.npz", b"first")
    unreachable = pytest.raises(CannotReach, match=f"division by zero.*: the end of the run is in {directory}")
    with monkeypatch.context() as broken:
        broken.setattr(Mirror, "_put", lambda self, name: 1 / 0)
        with unreachable, working_directory(url):
            write(directory, "checkpoints/checkpoint-2.npz", b"second")
    assert content(url) == {"checkpoints/checkpoint-1.npz": b"first"}
    with working_directory(url):
        pass
    assert content(url)["checkpoints/checkpoint-2.npz"] == b"second"


def test_a_second_learner_on_this_machine_is_refused_and_changes_nothing(url):
    with working_directory(url) as directory:
        write(directory, "metrics.jsonl", b"one\n")
        with pytest.raises(CannotReach, match=f"another learner is running in {url}"):
            working_directory(url).__enter__()
        assert os.listdir(directory) == ["metrics.jsonl"]


def test_a_checkpoint_that_has_gone_from_the_store_by_itself_is_no_trouble(url, tmp_path):
    mirror = Mirror(url, str(tmp_path / "here"))
    write(tmp_path / "here", "checkpoints/checkpoint-1.npz", b"first")
    mirror.push()
    store, root = fsspec.core.url_to_fs(url)
    store.rm_file(f"{root}/checkpoints/checkpoint-1.npz")
    os.remove(tmp_path / "here/checkpoints/checkpoint-1.npz")
    mirror.push()
    assert content(url) == {}


def test_a_directory_is_used_as_it_is(tmp_path):
    with working_directory(str(tmp_path)) as directory:
        assert directory == str(tmp_path)
    assert os.path.isdir(directory)


@pytest.mark.parametrize(
    ("place", "sentence"),
    [
        ("nowhere://a/run", "nowhere://a/run can't be used here: .*nowhere"),
        ("file:///proc/nothing/run", "file:///proc/nothing/run can't be (read|written): "),
    ],
)
def test_a_place_that_cannot_be_used_is_named(place, sentence, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(CannotReach, match=sentence):
        working_directory(place).__enter__()
