"""A cache of compiled maps for DeepMind Lab, without which actors spend most of their time compiling."""

import contextlib
import hashlib
import logging
import os
import secrets
import shutil
import zipfile
from typing import Any

from seed_rl.envs.base import CannotBuild
from seed_rl.system.files import Outage, complete_or_absent, explaining

_log = logging.getLogger(__name__)


class LevelCache:
    """The `level_cache` of a `deepmind_lab.Lab`, which calls `fetch` before it compiles a map and `write` afterwards.

    Any number of processes may share a cache; each map is a file named by a hash of the simulator's key. A map that is
    missing, damaged or unreachable is compiled: no exception reaches the simulator, and it only receives complete pk3
    files (zip archives), because any other file would crash its process.
    """

    def __init__(self, place: str):
        """`place` is a directory, which grows without bound, or a URL for fsspec such as `gs://bucket/levels`.

        Raises CannotBuild if fsspec, or its package for this kind of URL, is missing, or the kind of URL is unknown.
        """
        self._store: Any = None
        self._place = os.path.expanduser(place)
        what, meanwhile = f"maps in the level cache {place}", "maps are compiled instead"
        self._reads = Outage(what, meanwhile, _log, act="read", errors=Exception)  # every kind of store has its own
        self._writes = Outage(what, meanwhile, _log, errors=Exception)
        if "://" in place:
            with explaining(CannotBuild, f"the level cache {place} can't be opened", ImportError, ValueError):
                from fsspec.core import url_to_fs

                self._store, self._place = url_to_fs(place.rstrip("/"))

    def fetch(self, key: str, pk3_path: str) -> bool:
        """Copy the compiled map of `key` to `pk3_path`; return False if it has to be compiled."""
        path = f"{self._place}/{entry_name(key)}"
        with self._reads.tolerating(), contextlib.suppress(FileNotFoundError):
            if self._store is None:
                shutil.copyfile(path, pk3_path)
            else:
                self._store.invalidate_cache()  # other machines write too
                self._store.get_file(path, pk3_path)
            _check_pk3(pk3_path)
            return True
        with contextlib.suppress(OSError):
            os.remove(pk3_path)  # it may be incomplete
        return False

    def write(self, key: str, pk3_path: str) -> None:
        """Store the compiled map at `pk3_path` under `key`."""
        path = f"{self._place}/{entry_name(key)}"
        with self._writes.tolerating():
            _check_pk3(pk3_path)
            if self._store is not None:
                if path.startswith("/"):  # not in a bucket, which has no directories
                    self._store.makedirs(os.path.dirname(path), exist_ok=True)
                self._store.put_file(pk3_path, path)
                return
            own = f"{path}.{secrets.token_hex(8)}"  # others may write this map at the same time
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(pk3_path, "rb") as file, complete_or_absent(own) as copy:
                shutil.copyfileobj(file, copy)
            os.replace(own, path)


def entry_name(key: str) -> str:
    """Return the path of a map's file in the cache, in one of 256 folders."""
    digest = hashlib.sha256(key.encode()).hexdigest()
    return f"{digest[:2]}/{digest[2:]}.pk3"


def _check_pk3(path: str) -> None:
    """Raise an error unless a file is a complete zip archive with at least one member."""
    with zipfile.ZipFile(path) as archive:
        if not archive.namelist() or archive.testzip() is not None:
            raise ValueError(f"damaged pk3 file {path}")
