"""Files in object stores (`gs://`, `s3://`, and whatever else fsspec knows), read like those of this machine."""

from __future__ import annotations

import contextlib
import errno
import os
import tempfile
from collections.abc import Iterator
from typing import Any


class CannotReach(Exception):
    """A place in an object store that can't be used; one sentence."""


def is_url(place: str) -> bool:
    """Whether a file or directory is in an object store."""
    return "://" in place


@contextlib.contextmanager
def local_file(path: str) -> Iterator[str]:
    """A file to read: itself, or a copy that goes away.

    Raises:
      FileNotFoundError: there is no such file.
      CannotReach: the store can't be read.
    """
    if not is_url(path):
        _check_found(path, os.path.isfile(path))
        yield path
        return
    with tempfile.TemporaryDirectory(prefix="seed_rl-") as directory:
        copy = os.path.join(directory, os.path.basename(path))
        with reaching(path, "read"):
            store, key = open_store(path)
            store.invalidate_cache()
            found = store.isfile(key)
            if found:
                store.get_file(key, copy)
        _check_found(path, found)
        yield copy


def _check_found(path: str, found: bool) -> None:
    if not found:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)


def files_in(place: str) -> list[str]:
    """Names of the files in a directory, at any depth and in order; none if there is no such directory.

    Raises:
      CannotReach: the store can't be read.
    """
    if is_url(place):
        with reaching(place, "read"):
            return sorted(stored_files(*open_store(place)))
    return sorted(
        os.path.relpath(os.path.join(directory, name), place)
        for directory, _, names in os.walk(place)
        for name in names
    )


def open_store(url: str) -> tuple[Any, str]:
    """The fsspec file system of a URL, and its path there.

    Raises:
      CannotReach: fsspec, or what it needs for this kind of URL, is missing, or there is no such kind.
    """
    try:
        import fsspec.core
    except ImportError as error:
        raise CannotReach(f"{url} needs fsspec: pip install 'seed_rl[bucket]'") from error
    try:
        store, path = fsspec.core.url_to_fs(url.rstrip("/"))
    except (ImportError, ValueError) as error:
        raise CannotReach(f"{url} can't be used here: {error}") from error
    return store, path


def stored_files(store: Any, root: str) -> list[str]:
    """Names of the complete files below a path of a file system. Raises what the store does."""
    store.invalidate_cache()  # others write there too
    if not store.exists(root):
        return []
    root = root.rstrip("/") + "/"
    paths = [path for path, info in store.find(root, detail=True).items() if info["type"] == "file"]
    return [path.partition(root)[2] for path in paths if root in path and not path.endswith(".partial")]


def check_writable(url: str) -> None:
    """Writes a small file into a directory and removes it.

    Raises:
      CannotReach: that doesn't work.
    """
    with reaching(url, "written"):
        store, root = open_store(url)
        store.makedirs(root, exist_ok=True)
        store.pipe_file(f"{root}/.seed_rl", b"")
        store.rm_file(f"{root}/.seed_rl")


@contextlib.contextmanager
def reaching(url: str, what: str) -> Iterator[None]:
    """Tells of whatever goes wrong inside as a place that can't be, say, `read`.

    Raises:
      CannotReach: something went wrong.
    """
    try:
        yield
    except CannotReach:
        raise
    except Exception as error:  # every kind of store has errors of its own
        raise CannotReach(f"{url} can't be {what}: {sentence(error)}") from error


def sentence(error: BaseException) -> str:
    """An error of a store in a line."""
    return " ".join(str(error).split())[:300] or type(error).__name__
