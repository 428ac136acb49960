"""A cache of compiled levels for DeepMind Lab, whose actors otherwise spend most of their time compiling maps."""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import secrets
import zipfile
from typing import Any

from seed_rl.envs.base import CannotBuild
from seed_rl.object_store import open_store

_log = logging.getLogger(__name__)

_ATOMIC_STORES = frozenset({"s3", "s3a", "gs", "gcs", "az", "abfs", "abfss", "oss"})
"""fsspec's names of stores in which an object only appears once it is complete."""


class LevelCache:
    """The `level_cache` of a `deepmind_lab.Lab`: `fetch` is called before a map is compiled, `write` after it.

    Any number of processes may share a cache; each map is a file named by a hash of the simulator's key. Maps that are
    missing, damaged or out of reach are compiled as if there were no cache: nothing is raised into the simulator, and
    it is only given complete pk3 files (zip archives), since others would end its process.
    """

    def __init__(self, store: Any, root: str):
        """
        Args:
          store: an fsspec file system.
          root: the cache's directory there; grows without bound.
        """
        self._store = store
        self._root = root
        protocols = store.protocol
        self._atomic = not _ATOMIC_STORES.isdisjoint({protocols} if isinstance(protocols, str) else protocols)
        self._warned: set[str] = set()

    def fetch(self, key: str, pk3_path: str) -> bool:
        """Copies the compiled map of `key` to `pk3_path`; False if it has to be compiled."""
        try:
            self._store.get_file(f"{self._root}/{entry_name(key)}", pk3_path)
            if is_pk3(pk3_path):
                return True
            self._warn_once("use", f"damaged entry {entry_name(key)}")  # `write` replaces it
        except FileNotFoundError:
            pass
        except Exception as error:  # each kind of store raises its own
            self._warn_once("read", error)
        with contextlib.suppress(OSError):
            os.remove(pk3_path)  # it may be incomplete
        return False

    def write(self, key: str, pk3_path: str) -> None:
        """Stores the compiled map at `pk3_path` under `key`."""
        try:
            if not is_pk3(pk3_path):
                raise ValueError(f"the compiled map is no pk3 file: {pk3_path}")
            self._put(pk3_path, f"{self._root}/{entry_name(key)}")
        except Exception as error:
            self._warn_once("write", error)

    def _put(self, path: str, target: str) -> None:
        """Copies a local file into the store, where it appears at once if the store can rename."""
        if self._atomic:
            self._store.put_file(path, target)
            return
        self._store.makedirs(target.rpartition("/")[0], exist_ok=True)
        partial = f"{target}.{secrets.token_hex(8)}.partial"
        try:
            self._store.put_file(path, partial)
            self._store.mv(partial, target)
        except BaseException:
            with contextlib.suppress(Exception):
                self._store.rm_file(partial)
            raise

    def _warn_once(self, verb: str, reason: object) -> None:
        if verb not in self._warned:
            self._warned.add(verb)
            _log.warning("the level cache can't %s, maps are compiled instead (logged once): %s", verb, reason)


def open_cache(location: str) -> LevelCache:
    """The cache in a local directory, or at a URL that fsspec understands, such as `gs://bucket/levels`.

    Raises:
      CannotBuild: fsspec, or the package that it needs for this kind of URL, is missing, or there is no such kind.
    """
    try:
        return LevelCache(*open_store(os.path.expanduser(location)))
    except Exception as error:  # each kind of store raises its own
        raise CannotBuild(f"the level cache {location} can't be opened: {error}") from error


def entry_name(key: str) -> str:
    """The name of a map's file, relative to the cache: spread over 256 folders."""
    digest = hashlib.sha256(key.encode()).hexdigest()
    return f"{digest[:2]}/{digest[2:]}.pk3"


def is_pk3(path: str) -> bool:
    """Whether a file is a complete zip archive with at least one member."""
    try:
        with zipfile.ZipFile(path) as archive:
            return bool(archive.namelist()) and archive.testzip() is None
    except Exception:  # zipfile raises all kinds for damaged archives
        return False
