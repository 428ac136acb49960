"""Files in object stores."""

import os
import sys

import fsspec
import pytest

from seed_rl.system.object_store import CannotReach, check_writable, files_in, is_url, local_file, reaching
from tests.support import stores


@pytest.fixture(params=["here", *stores.KINDS])
def place(request, tmp_path):
    """A directory with two files, here and in stores."""
    here = f"{tmp_path}/run"
    place = here if request.param == "here" else stores.directory(request.param, here)
    store, root = fsspec.core.url_to_fs(place)
    for name in ("metrics.jsonl", "checkpoints/checkpoint-1.npz"):
        store.makedirs(os.path.dirname(f"{root}/{name}"), exist_ok=True)
        store.pipe_file(f"{root}/{name}", name.encode())
    return place


def test_files_are_found_and_read_wherever_they_are(place):
    assert files_in(place) == files_in(f"{place}/") == ["checkpoints/checkpoint-1.npz", "metrics.jsonl"]
    assert files_in(f"{place}/checkpoints") == ["checkpoint-1.npz"]
    store, root = fsspec.core.url_to_fs(place, skip_instance_cache=True)  # as on another machine
    for name in ("later", "half.partial"):
        store.pipe_file(f"{root}/{name}", b"")
    assert files_in(place) == ["checkpoints/checkpoint-1.npz", "later", "metrics.jsonl"]
    with local_file(f"{place}/checkpoints/checkpoint-1.npz") as path:
        with open(path, "rb") as file:
            assert file.read() == b"checkpoints/checkpoint-1.npz"
        assert (path == f"{place}/checkpoints/checkpoint-1.npz") == (not is_url(place))
    assert os.path.exists(path) == (not is_url(place)), "a copy goes away, and nothing else"


def test_a_missing_file_is_an_error_and_a_missing_directory_is_empty(place):
    assert files_in(f"{place}/nothing") == files_in(f"{place}/metrics.jsonl") == files_in(f"{place}/metrics") == []
    for name in ("nothing", "checkpoints"):
        with pytest.raises(FileNotFoundError) as error, local_file(f"{place}/{name}"):
            pass
        assert error.value.filename == f"{place}/{name}"


def test_errors_of_a_store_are_reported_in_a_sentence(monkeypatch):
    with pytest.raises(CannotReach, match="^nowhere://a/run can't be used here: .*nowhere"):
        files_in("nowhere://a/run")
    with pytest.raises(CannotReach, match="^file:///proc/nothing/run can't be written: "):
        check_writable("file:///proc/nothing/run")
    with (
        pytest.raises(CannotReach, match="^memory://a/run can't be read: division by zero$"),
        reaching("memory://a/run", "read"),
    ):
        1 / 0  # noqa: B018
    monkeypatch.setitem(sys.modules, "fsspec.core", None)
    with pytest.raises(CannotReach, match="^gs://a/run needs fsspec: pip install fsspec$"):
        files_in("gs://a/run")


@pytest.mark.parametrize("kind", stores.WITH_BUCKETS)
def test_a_mistyped_bucket_is_empty_for_readers_and_not_created_for_writers(kind, tmp_path):
    place = stores.directory(kind, tmp_path)
    check_writable(place)
    assert files_in(place) == files_in(f"{kind}://mistyped/run") == []
    with pytest.raises(FileNotFoundError), local_file(f"{kind}://mistyped/run/config.json"):
        pass
    with pytest.raises(CannotReach, match=f"^{kind}://mistyped/run can't be written: there is no bucket mistyped$"):
        check_writable(f"{kind}://mistyped/run")
    assert stores.buckets(kind) == ["bucket"]


@pytest.mark.parametrize("kind", stores.WITH_BUCKETS)
def test_keys_that_stand_for_directories_are_no_files(kind, tmp_path):
    place = stores.directory(kind, tmp_path)
    store, root = fsspec.core.url_to_fs(place)
    for name in ("", "checkpoints/", "metrics.jsonl"):
        store.pipe_file(f"{root}/{name}", b"")
    assert files_in(place) == ["metrics.jsonl"]
