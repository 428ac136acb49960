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
from seed_rl.system.files import complete_or_absent, explained

_log = logging.getLogger(__name__)


class LevelCache:
    """The `level_cache` of a `deepmind_lab.Lab`, which calls `fetch` before it compiles a map and `write` afterwards.

    Any number of processes may share a cache; each map is a file named by a hash of the simulator's key. A map that is
    missing, damaged or unreachable is compiled: no exception reaches the simulator, and it only receives complete pk3
    files (zip archives), because any other file would crash its process.
    """

    def __init__(self, place: str):
        """
        Args:
          place: a directory, or a URL for fsspec such as `gs://bucket/levels`; it grows without bound.

        Raises:
          CannotBuild: fsspec, or its package for this kind of URL, is missing, or the kind of URL is unknown.
        """
        self._store: Any = None
        self._place = os.path.expanduser(place)
        self._warned: set[str] = set()
        if "://" in place:
            with explained(CannotBuild, f"the level cache {place} can't be opened", ImportError, ValueError):
                from fsspec.core import url_to_fs

                self._store, self._place = url_to_fs(place.rstrip("/"))

    def fetch(self, key: str, pk3_path: str) -> bool:
        """Copies the compiled map of `key` to `pk3_path`; False if it has to be compiled."""
        try:
            path = f"{self._place}/{entry_name(key)}"
            if self._store is None:
                shutil.copyfile(path, pk3_path)
            else:
                self._store.invalidate_cache()  # other machines write too
                self._store.get_file(path, pk3_path)
            if is_pk3(pk3_path):
                return True
            self._warn_once("use", f"damaged entry {entry_name(key)}")  # until `write` replaces it
        except FileNotFoundError:
            pass
        except Exception as error:  # every kind of store raises different errors
            self._warn_once("read", error)
        with contextlib.suppress(OSError):
            os.remove(pk3_path)  # it may be incomplete
        return False

    def write(self, key: str, pk3_path: str) -> None:
        """Stores the compiled map at `pk3_path` under `key`."""
        try:
            if not is_pk3(pk3_path):
                raise ValueError(f"the compiled map is not a pk3 file: {pk3_path}")
            path = f"{self._place}/{entry_name(key)}"
            if self._store is not None:
                self._store.put_file(pk3_path, path)
                return
            own = f"{path}.{secrets.token_hex(8)}"  # others may write this map at the same time
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(pk3_path, "rb") as file, complete_or_absent(own) as copy:
                shutil.copyfileobj(file, copy)
            os.replace(own, path)
        except Exception as error:
            self._warn_once("write", error)

    def _warn_once(self, verb: str, reason: object) -> None:
        if verb not in self._warned:
            self._warned.add(verb)
            _log.warning("the level cache can't %s; maps are compiled instead (logged once): %s", verb, reason)


def entry_name(key: str) -> str:
    """The path of a map's file in the cache, in one of 256 folders."""
    digest = hashlib.sha256(key.encode()).hexdigest()
    return f"{digest[:2]}/{digest[2:]}.pk3"


def is_pk3(path: str) -> bool:
    """Whether a file is a complete zip archive with at least one member."""
    try:
        with zipfile.ZipFile(path) as archive:
            return bool(archive.namelist()) and archive.testzip() is None
    except Exception:  # a damaged archive may raise anything
        return False
