"""Files in object stores (`gs://`, `s3://` and the others of fsspec), read like those of this machine."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import tempfile
from collections.abc import Iterator
from typing import IO, Any

from seed_rl.foreign import printable, relative_name
from seed_rl.system.files import PARTIAL


class CannotReach(Exception):
    """A place in an object store that can't be used; one sentence."""


def is_url(place: str) -> bool:
    """Whether a file or directory is in an object store."""
    return "://" in place


@contextlib.contextmanager
def local_file(path: str) -> Iterator[str]:
    """Path of a file to read: the file itself, or a temporary copy of one in a store.

    Raises:
      FileNotFoundError: there is no such file.
      CannotReach: the store can't be read.
    """
    with contextlib.ExitStack() as cleanup:
        local, found = path, os.path.isfile(path)
        if is_url(path):
            directory = cleanup.enter_context(tempfile.TemporaryDirectory(prefix="seed_rl-"))
            local = os.path.join(directory, os.path.basename(path))
            with reaching(path, "read"):
                system, key = open_store(path)
                system.invalidate_cache()
                found = system.isfile(key)
                if found:
                    system.get_file(key, local)
        if not found:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        yield local


def files_in(place: str) -> list[str]:
    """Sorted names of the complete files in a directory, at any depth; none if there is no such directory.

    Raises:
      CannotReach: the store can't be read.
    """
    if is_url(place):
        with reaching(place, "read"):
            return ObjectStore(place).files()
    names = (
        os.path.relpath(os.path.join(directory, name), place)
        for directory, _, names in os.walk(place)
        for name in names
    )
    return sorted(name for name in names if not name.endswith(PARTIAL))


class ObjectStore:
    """A directory in an object store, whose errors are of its own kind; `reaching` makes sentences of them."""

    def __init__(self, url: str):
        """
        Raises:
          CannotReach: fsspec, or the package for this kind of URL, is missing, or there is no such kind.
        """
        self._system, self._root = open_store(url)

    def files(self) -> list[str]:
        """Sorted names of the complete files, at any depth.

        Raises:
          ValueError: a name leads out of the directory.
        """
        return sorted(relative_name(name) for name in self._names() if not name.endswith(PARTIAL))

    def _names(self) -> list[str]:
        """All files, as the store names them: no names of files here."""
        self._system.invalidate_cache()  # others write there too
        if not self._system.exists(self._root):
            return []
        root = f"{self._root}/"
        found: dict[str, dict[str, Any]] = self._system.find(self._root, detail=True)
        return [path.partition(root)[2] for path, info in found.items() if info["type"] == "file" and root in path]

    def remove_partial(self) -> None:
        """Removes what learners left that were killed while they sent it."""
        for name in self._names():
            if name.endswith(PARTIAL):
                self.remove(name)

    def fetch(self, name: str, path: str) -> None:
        """Copies a file to a path on this machine."""
        self._system.get_file(f"{self._root}/{name}", path)

    def send(self, file: IO[bytes], name: str) -> None:
        """Writes a copy of an open file, which may grow meanwhile."""
        target = f"{self._root}/{name}"
        partial = f"{target}{PARTIAL}"  # the store itself may not be atomic
        self._system.makedirs(target.rpartition("/")[0], exist_ok=True)
        with tempfile.NamedTemporaryFile(prefix="seed_rl-") as copy:
            shutil.copyfileobj(file, copy)
            copy.flush()
            self._system.put_file(copy.name, partial)
        self._system.mv(partial, target)

    def remove(self, name: str) -> None:
        """Removes a file; one that isn't there is no error."""
        with contextlib.suppress(FileNotFoundError):
            self._system.rm_file(f"{self._root}/{name}")


def open_store(url: str) -> tuple[Any, str]:
    """The fsspec file system of a URL, and its path there."""
    try:
        import fsspec.core
    except ImportError as error:
        raise CannotReach(f"{url} needs fsspec: pip install fsspec") from error
    try:
        system, path = fsspec.core.url_to_fs(url.rstrip("/"))
    except (ImportError, ValueError) as error:
        raise CannotReach(f"{url} can't be used here: {error}") from error
    return system, path.rstrip("/")


def check_writable(url: str) -> None:
    """Writes a small file into a directory and removes it.

    Raises:
      CannotReach: that doesn't work.
    """
    with reaching(url, "written"):
        store = ObjectStore(url)
        with open(os.devnull, "rb") as nothing:
            store.send(nothing, ".seed_rl")
        store.remove(".seed_rl")


@contextlib.contextmanager
def reaching(url: str, done: str) -> Iterator[None]:
    """Turns every error inside into one that says that the place can't be `done`, such as "read".

    Raises:
      CannotReach: there was an error.
    """
    try:
        yield
    except CannotReach:
        raise
    except Exception as error:  # every kind of store has errors of its own
        raise CannotReach(f"{url} can't be {done}: {sentence(error)}") from error


def sentence(error: BaseException) -> str:
    """The message of a store's error on one line."""
    return printable(" ".join(str(error).split())[:300]) or type(error).__name__
