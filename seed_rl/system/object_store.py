"""Files in object stores (`gs://`, `s3://` and fsspec's other protocols), read like local files."""

import contextlib
import errno
import os
import pathlib
import shutil
import tempfile
from collections.abc import Iterator
from typing import IO

from seed_rl.foreign import relative_name
from seed_rl.system.files import PARTIAL, explained

_BLOCK = 32 << 20  # bytes per request of an upload


class CannotReach(Exception):
    """An object store, or a place in it, can't be used; the message is one sentence."""


def is_url(place: str) -> bool:
    """Return whether a file or directory is in an object store."""
    return "://" in place


@contextlib.contextmanager
def local_file(path: str) -> Iterator[str]:
    """Yield a path for reading: the file itself, or a temporary copy if it is in an object store.

    Raises:
      FileNotFoundError: there is no such file.
      CannotReach: the store can't be read.
    """
    with contextlib.ExitStack() as cleanup:
        local = path
        if is_url(path):
            directory = cleanup.enter_context(tempfile.TemporaryDirectory(prefix="seed_rl-"))
            local = os.path.join(directory, os.path.basename(path))
            with reaching(path, "read"), contextlib.suppress(FileNotFoundError):
                ObjectStore(path).fetch("", local)
        if not os.path.isfile(local):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        yield local


def files_in(place: str) -> list[str]:
    """Return the sorted relative names of all complete files below a directory; none if it doesn't exist.

    Raises:
      CannotReach: the store can't be read.
    """
    if is_url(place):
        with reaching(place, "read"):
            return ObjectStore(place).files()
    names = (str(path.relative_to(place)) for path in pathlib.Path(place).rglob("*") if not path.is_dir())
    return sorted(name for name in names if not name.endswith(PARTIAL))


class ObjectStore:
    """A directory in an object store.

    Its methods raise the errors of the store's own package; `reaching` turns them into sentences.
    """

    def __init__(self, url: str):
        """
        Raises:
          CannotReach: fsspec or its package for this protocol is missing, or the protocol is unknown.
        """
        try:
            from fsspec.core import url_to_fs
            from fsspec.implementations.dirfs import DirFileSystem
        except ImportError as error:
            raise CannotReach(f"{url} needs fsspec: pip install fsspec") from error
        with explained(CannotReach, f"{url} can't be used here", ImportError, ValueError):
            system, path = url_to_fs(url.rstrip("/"))
        self._system = DirFileSystem(fo=path.rstrip("/"), fs=system)  # fsspec before 2026 takes a `path` "" for None

    def files(self) -> list[str]:
        """Return the sorted relative names of all complete files.

        Raises:
          ValueError: a name leads out of the directory.
        """
        return sorted(relative_name(name) for name in self._names() if not name.endswith(PARTIAL))

    def _names(self) -> list[str]:
        """Return the names of all files, unchecked: they are not safe as local paths."""
        self._system.fs.invalidate_cache()  # other machines write too
        with contextlib.suppress(FileNotFoundError):
            # Keys that end in "/" are the folders of web consoles, and the name of a file itself is "".
            return [name for name in self._system.find("") if name and not name.endswith("/")]
        return []

    def remove_partial(self) -> None:
        """Remove the unfinished files of killed learners."""
        for name in self._names():
            if name.endswith(PARTIAL):
                self.remove(name)

    def fetch(self, name: str, path: str) -> None:
        """Copy a file to a local path; the name "" is the store's own URL."""
        self._system.fs.invalidate_cache()
        self._system.get_file(name, path)

    def send(self, file: IO[bytes], name: str) -> None:
        """Upload an open file, which may still grow; it appears under its name once it is complete.

        Directories are created as needed, but no bucket, whose name may be mistyped.
        """
        partial, bucket = f"{name}{PARTIAL}", self._system.path.partition("/")[0]  # not every store writes atomically
        if not bucket:  # which would have keys and no directories
            self._system.makedirs(os.path.dirname(name), exist_ok=True)
        try:
            with self._system.open(partial, "wb", block_size=_BLOCK) as copy:
                shutil.copyfileobj(file, copy)
        except FileNotFoundError as error:
            raise FileNotFoundError(f"there is no bucket {bucket}") from error
        self._system.mv(partial, name)

    def remove(self, name: str) -> None:
        """Remove a file if it exists."""
        with contextlib.suppress(FileNotFoundError):
            self._system.rm_file(name)


def check_writable(url: str) -> None:
    """Upload an empty file to a directory and remove it.

    Raises:
      CannotReach: the store can't be written.
    """
    with reaching(url, "written"):
        store = ObjectStore(url)
        with open(os.devnull, "rb") as nothing:
            store.send(nothing, ".seed_rl")
        store.remove(".seed_rl")


@contextlib.contextmanager
def reaching(url: str, done: str) -> Iterator[None]:
    """Turn every error into a sentence: the URL can't be `done`, such as "read".

    Raises:
      CannotReach: an error occurred.
    """
    with explained(CannotReach, f"{url} can't be {done}", Exception):  # each store's package has its own errors
        yield
