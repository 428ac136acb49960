"""A cache of compiled levels for DeepMind Lab: most of an actor's time goes into compiling maps without one."""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import secrets
import shutil
import zipfile
from typing import Protocol

from seed_rl.envs.registry import CannotBuild

_log = logging.getLogger(__name__)

_ATOMIC_STORES = frozenset({"s3", "s3a", "gs", "gcs", "az", "abfs", "abfss", "oss"})
"""fsspec's names of stores in which an object appears when all of it is there."""


class Store(Protocol):
    """Where files are kept by name. Any error may be raised."""

    def get(self, name: str, path: str) -> bool:
        """Copies a file to a local path; False if there is none of this name."""
        ...

    def put(self, name: str, path: str) -> None:
        """Keeps a copy of a local file; it appears at once or, in a store that can't do that, may be seen half."""
        ...


class LevelCache:
    """What `deepmind_lab.Lab` takes as its `level_cache`: `fetch` before a map is compiled, `write` after it.

    Any number of processes may share a store. A file is found by a hash of the simulator's key. What is missing,
    damaged or out of reach is compiled as if there were no cache: nothing is raised into the simulator, and nothing but
    a whole pk3 file (a zip archive) is given to it, whose process would end otherwise.
    """

    def __init__(self, store: Store):
        """
        Args:
          store: of compiled maps; grows without bound.
        """
        self._store = store
        self._told: set[str] = set()

    def fetch(self, key: str, pk3_path: str) -> bool:
        """Copies the compiled map of `key` to `pk3_path`; False if it has to be compiled."""
        try:
            found = self._store.get(entry_name(key), pk3_path)
        except Exception as error:
            self._tell_once("read", error)
            found = False
        if found and not is_pk3(pk3_path):
            self._tell_once("use", f"damaged entry {entry_name(key)}")  # `write` replaces it
            found = False
        if not found:
            with contextlib.suppress(OSError):
                os.remove(pk3_path)  # half of it may be there
        return found

    def write(self, key: str, pk3_path: str) -> None:
        """Keeps the compiled map at `pk3_path` under `key`."""
        try:
            if not is_pk3(pk3_path):
                raise ValueError(f"what was compiled is no pk3 file: {pk3_path}")
            self._store.put(entry_name(key), pk3_path)
        except Exception as error:
            self._tell_once("write", error)

    def _tell_once(self, what: str, reason: object) -> None:
        if what not in self._told:
            self._told.add(what)
            _log.warning("the level cache can't %s, maps are compiled instead (told once): %s", what, reason)


def open_cache(location: str) -> LevelCache:
    """The cache in a local directory, or at a URL that fsspec understands, such as `gs://bucket/levels`.

    Raises:
      CannotBuild: fsspec, or what it needs for this kind of URL, is missing, or there is no such kind.
    """
    if "://" in location or "::" in location:
        return LevelCache(_FsspecStore(location))
    return LevelCache(_Directory(os.path.expanduser(location)))


def entry_name(key: str) -> str:
    """The name of a map's file, relative to the cache: spread over 256 folders."""
    digest = hashlib.sha256(key.encode()).hexdigest()
    return f"{digest[:2]}/{digest[2:]}.pk3"


def is_pk3(path: str) -> bool:
    """Whether a file is a zip archive with all its parts whole, and at least one."""
    try:
        with zipfile.ZipFile(path) as archive:
            return bool(archive.namelist()) and archive.testzip() is None
    except Exception:  # zipfile raises all kinds for damaged archives
        return False


def _partial(path: str) -> str:
    return f"{path}.{secrets.token_hex(8)}.partial"


class _Directory:
    """A local directory; files appear by being renamed."""

    def __init__(self, root: str):
        self._root = root

    def get(self, name: str, path: str) -> bool:
        try:
            shutil.copyfile(os.path.join(self._root, name), path)
        except FileNotFoundError:
            return False
        return True

    def put(self, name: str, path: str) -> None:
        target = os.path.join(self._root, name)
        os.makedirs(os.path.dirname(target), exist_ok=True)
        partial = _partial(target)
        try:
            shutil.copyfile(path, partial)
            os.replace(partial, target)
        except BaseException:
            with contextlib.suppress(OSError):
                os.remove(partial)
            raise


class _FsspecStore:
    """A place of any kind that fsspec knows."""

    def __init__(self, url: str):
        try:
            from fsspec.core import url_to_fs
        except ImportError as error:
            raise CannotBuild(f"the level cache {url} needs fsspec: pip install 'seed_rl[dmlab]'") from error
        try:
            self._files, self._root = url_to_fs(url)
        except Exception as error:  # each kind of file system raises its own
            raise CannotBuild(f"the level cache {url} can't be used here: {error}") from error
        protocols = self._files.protocol
        self._atomic = not _ATOMIC_STORES.isdisjoint({protocols} if isinstance(protocols, str) else protocols)

    def get(self, name: str, path: str) -> bool:
        try:
            self._files.get_file(f"{self._root}/{name}", path)
        except FileNotFoundError:
            return False
        return True

    def put(self, name: str, path: str) -> None:
        target = f"{self._root}/{name}"
        if self._atomic:
            self._files.put_file(path, target)
            return
        self._files.makedirs(target.rpartition("/")[0], exist_ok=True)
        partial = _partial(target)
        try:
            self._files.put_file(path, partial)
            self._files.mv(partial, target)
        except BaseException:
            with contextlib.suppress(Exception):
                self._files.rm_file(partial)
            raise
