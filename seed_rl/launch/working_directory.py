"""Where a run works whose log directory is in an object store (`gs://`, `s3://`, and whatever else fsspec knows).

An object store can't append to a file, so a run works in a directory on this machine, which is kept alike: it begins as
a copy of what the store has, what changes is written back now and then and at the end, and then it goes away. The store
is the truth: a learner that was preempted on one machine goes on from it on another.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import logging
import os
import shutil
import tempfile
import threading
from collections.abc import Iterable, Iterator

from seed_rl.files import Outage, reason
from seed_rl.object_store import CannotReach, check_writable, is_url, open_store, reaching, sentence, stored_files

_log = logging.getLogger(__name__)

_PUSH_SECONDS = 30.0
_PRIVATE = ("lock",)  # means something on one machine only
_CHECKPOINTS = "checkpoints"


@contextlib.contextmanager
def working_directory(place: str) -> Iterator[str]:
    """A log directory to run in: the place itself, or one on this machine whose content is kept in the store.

    If the directory of an earlier start is still there, because it was killed or could not reach the store at its end,
    and holds a later checkpoint than the store, the run goes on from the directory.

    Raises:
      CannotReach: the store can't be read or written, another learner of this machine is using it, or, when left, the
        end of the run could not be written.
    """
    if not is_url(place):
        yield place
        return
    directory = os.path.join(
        os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"),
        "seed_rl",
        f"{place.rstrip('/').rpartition('/')[2]}-{hashlib.sha256(place.encode()).hexdigest()[:12]}",
    )
    mirror = Mirror(place, directory)
    with _locked(f"{directory}.lock", place):
        if not mirror.is_ahead():
            mirror.pull()
        check_writable(place)
        _log.info("%s is kept from a copy in %s", place, directory)
        done = threading.Event()
        outage = Outage(f"files in {place}", "training goes on and tries again", _log)

        def keep_alike() -> None:
            while not done.wait(_PUSH_SECONDS):
                with outage.tolerated():
                    mirror.push()

        thread = threading.Thread(target=keep_alike, name="bucket", daemon=True)
        thread.start()
        try:
            yield directory
        finally:
            done.set()
            thread.join()
            try:
                mirror.push()
            except OSError as error:
                raise CannotReach(
                    f"{place} can't be written ({reason(error)}): the end of the run is in {directory}, and the next "
                    "start on this machine goes on from there"
                ) from error
            shutil.rmtree(directory, ignore_errors=True)  # what is left does no harm


@contextlib.contextmanager
def _locked(path: str, place: str) -> Iterator[None]:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise CannotReach(f"another learner is running in {place}") from None
        yield


class Mirror:
    """A local directory and a place in an object store."""

    def __init__(self, url: str, directory: str):
        """
        Args:
          url: of the place.
          directory: made if need be.

        Raises:
          CannotReach: fsspec, or what it needs for this kind of URL, is missing, or there is no such kind.
        """
        self._url = url.rstrip("/")
        self._directory = directory
        self._pushed: dict[str, tuple[int, int]] = {}
        self._store, self._root = open_store(url)

    def pull(self) -> None:
        """Makes the local directory what the store has.

        Raises:
          CannotReach: the store can't be read.
        """
        with reaching(self._url, "read"):
            remote = stored_files(self._store, self._root)
            for name in self._local():
                if name not in remote:
                    os.remove(os.path.join(self._directory, name))
            for name in sorted(remote):
                path = os.path.join(self._directory, name)
                os.makedirs(os.path.dirname(path), exist_ok=True)
                self._store.get_file(f"{self._root}/{name}", path)
        self._pushed = self._local()

    def is_ahead(self) -> bool:
        """Whether the newest checkpoint here is a later one than the store's.

        Raises:
          CannotReach: the store can't be read.
        """
        here = _newest_checkpoint(self._local())
        with reaching(self._url, "read"):
            return bool(here) and here > _newest_checkpoint(stored_files(self._store, self._root))

    def push(self) -> None:
        """Writes what has changed; a checkpoint that is gone here goes there once its successor is there.

        Raises:
          OSError: the store can't be written; what is missing there is written next time.
        """
        local = self._local()
        try:
            for name, state in local.items():
                if self._pushed.get(name) != state and self._put(name):
                    self._pushed[name] = state
            for name in set(self._pushed) - set(local):
                if name.startswith(f"{_CHECKPOINTS}/"):
                    with contextlib.suppress(FileNotFoundError):  # it went, though that was told as a failure
                        self._store.rm_file(f"{self._root}/{name}")
                del self._pushed[name]
        except Exception as error:  # every kind of store has errors of its own
            raise OSError(sentence(error)) from error

    def _put(self, name: str) -> bool:
        """Writes a copy of the file as it is now, as it may grow while it is sent; False if it is gone."""
        with tempfile.TemporaryDirectory(prefix="seed_rl-") as directory:
            copy = os.path.join(directory, "file")
            try:
                shutil.copyfile(os.path.join(self._directory, name), copy)
            except FileNotFoundError:  # a checkpoint that has just been removed
                return False
            target = f"{self._root}/{name}"
            self._store.makedirs(target.rpartition("/")[0], exist_ok=True)
            self._store.put_file(copy, target)
            return True

    def _local(self) -> dict[str, tuple[int, int]]:
        """Size and time of the files here by name."""
        found: dict[str, tuple[int, int]] = {}
        for directory, _, files in os.walk(self._directory):
            for file in files:
                path = os.path.join(directory, file)
                name = os.path.relpath(path, self._directory)
                if name not in _PRIVATE and not name.endswith(".partial"):
                    with contextlib.suppress(FileNotFoundError):
                        state = os.stat(path)
                        found[name] = (state.st_size, state.st_mtime_ns)
        return found


def _newest_checkpoint(names: Iterable[str]) -> str:
    """Its name, which grows with the updates; "" if there is none."""
    return max((name for name in names if name.startswith(f"{_CHECKPOINTS}/checkpoint-")), default="")
