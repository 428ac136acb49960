"""Directories in object stores."""

import os

import fsspec
import pytest

from seed_rl.extras.stores.mirror import ObjectStore, check_writable, relative_name
from seed_rl.runs.run_directory import CannotUse
from tests.extras.stores import emulators


@pytest.fixture(params=emulators.KINDS)
def url(request, tmp_path):
    """A directory with two files."""
    url = emulators.directory(request.param, f"{tmp_path}/run")
    store, root = fsspec.core.url_to_fs(url)
    for name in ("metrics.jsonl", "checkpoints/checkpoint-1.npz"):
        store.makedirs(os.path.dirname(f"{root}/{name}"), exist_ok=True)
        store.pipe_file(f"{root}/{name}", name.encode())
    return url


def files_in(url):
    return ObjectStore(url).files()


def test_files_are_found_and_fetched(url, tmp_path):
    assert files_in(url) == files_in(f"{url}/") == ["checkpoints/checkpoint-1.npz", "metrics.jsonl"]
    assert files_in(f"{url}/checkpoints") == ["checkpoint-1.npz"]
    store, root = fsspec.core.url_to_fs(url, skip_instance_cache=True)  # as on another machine
    for name in ("later", "half.partial"):
        store.pipe_file(f"{root}/{name}", b"")
    assert files_in(url) == ["checkpoints/checkpoint-1.npz", "later", "metrics.jsonl"]
    ObjectStore(url).fetch("checkpoints/checkpoint-1.npz", str(tmp_path / "here"))
    assert (tmp_path / "here").read_bytes() == b"checkpoints/checkpoint-1.npz"


def test_a_missing_file_is_an_error_and_a_missing_directory_is_empty(url, tmp_path):
    assert files_in(f"{url}/nothing") == files_in(f"{url}/metrics.jsonl") == files_in(f"{url}/metrics") == []
    with pytest.raises(FileNotFoundError):
        ObjectStore(url).fetch("nothing", str(tmp_path / "here"))


@pytest.mark.parametrize("name", ["", ".", "..", "/", "/a", "a/", "a//b", "./a", "a/.", "../a", "a/../b", "a\0b"])
def test_names_that_are_none_or_lead_out_of_the_directory_are_refused(name):
    assert relative_name("..a/b..") == "..a/b.."
    with pytest.raises(ValueError, match="expected a file name inside of the directory, got "):
        relative_name(name)


@pytest.mark.parametrize("kind", emulators.WITH_BUCKETS)
def test_a_mistyped_bucket_is_empty_for_readers_and_not_created_for_writers(kind, tmp_path):
    check_writable(emulators.directory(kind, tmp_path))
    assert files_in(f"{kind}://mistyped/run") == []
    with pytest.raises(CannotUse, match=f"^{kind}://mistyped/run can't be written: there is no bucket mistyped$"):
        check_writable(f"{kind}://mistyped/run")
    assert emulators.buckets(kind) == ["bucket"]


@pytest.mark.parametrize("kind", emulators.WITH_BUCKETS)
def test_keys_that_stand_for_directories_are_no_files(kind, tmp_path):
    url = emulators.directory(kind, tmp_path)
    store, root = fsspec.core.url_to_fs(url)
    for name in ("", "checkpoints/", "metrics.jsonl"):
        store.pipe_file(f"{root}/{name}", b"")
    assert files_in(url) == ["metrics.jsonl"]
