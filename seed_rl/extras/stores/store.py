"""A directory in an object store, and errors of stores as sentences."""

import contextlib
import os
import re
import shutil
from collections.abc import Iterator
from typing import IO

from seed_rl.foreign import shortened
from seed_rl.runs.run_directory import CannotUse
from seed_rl.system.files import PARTIAL, explaining

_BLOCK = 32 << 20  # bytes per request of an upload


def is_url(place: str) -> bool:
    """Return whether a file or directory is in an object store."""
    return "://" in place


def relative_name(name: str) -> str:
    """Return a file name, after checking that it does not lead out of its directory.

    Raises:
      ValueError: it might.
    """
    if re.search(r"(^|/)\.{0,2}(/|$)|\0", name):
        raise ValueError(f"expected a file name inside of the directory, got {shortened(name)}")
    return name


class ObjectStore:
    """A directory in an object store.

    Its methods raise the errors of the store's own package; `reaching` turns them into sentences.
    """

    def __init__(self, url: str):
        """
        Raises:
          CannotUse: fsspec or its package for this protocol is missing, or the protocol is unknown.
        """
        try:
            from fsspec.core import url_to_fs
            from fsspec.implementations.dirfs import DirFileSystem
        except ImportError as error:
            raise CannotUse(f"{url} needs fsspec: pip install fsspec") from error
        with explaining(CannotUse, f"{url} can't be used here", ImportError, ValueError):
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
        """Copy a file to a local path."""
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
      CannotUse: the store can't be written.
    """
    with reaching(url, "written"):
        store = ObjectStore(url)
        with open(os.devnull, "rb") as nothing:
            store.send(nothing, ".seed_rl")
        store.remove(".seed_rl")


@contextlib.contextmanager
def reaching(url: str, done: str) -> Iterator[None]:
    """Turn every error into one line: the URL can't be `done`, such as "read".

    Raises:
      CannotUse: an error occurred.
    """
    with explaining(CannotUse, f"{url} can't be {done}", Exception):  # each store's package has its own errors
        yield
