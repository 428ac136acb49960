"""A run's directory on this machine, kept equal to a log directory in an object store.

A run appends to files, which an object store can't do. So the run works in a directory of its machine that starts as a
copy of the store, and sends changed files at intervals and at the end. The store is the truth: a learner preempted on
one machine continues from it on another.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import shutil
import threading
from collections.abc import Iterable, Iterator

from seed_rl.system.files import Outage, locked, reason
from seed_rl.system.object_store import (
    CannotReach,
    ObjectStore,
    check_writable,
    files_in,
    is_url,
    reaching,
    sentence,
)

_log = logging.getLogger(__name__)

_MAX_SECONDS = 30.0
_CHECKPOINTS = "checkpoints/"
_LOCK = "lock"


@contextlib.contextmanager
def working_directory(place: str, seconds: float = _MAX_SECONDS) -> Iterator[str]:
    """The directory in which a run works: its log directory, or one of this machine that mirrors a store.

    A learner that was killed on this machine, or could not reach the object store at its end, left its directory here:
    the run continues from it if it has a later checkpoint than the object store.

    Args:
      place: the log directory.
      seconds: between copies to the store, at most 30.

    Raises:
      CannotReach: the store can't be read or written, now or at the end, or another learner here is using it.
    """
    if not is_url(place):
        yield place
        return
    cache = os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "seed_rl")
    os.makedirs(cache, exist_ok=True)
    short, identity = os.path.basename(place.rstrip("/")), hashlib.sha256(place.encode()).hexdigest()[:12]
    directory = os.path.join(cache, f"{short}-{identity}")
    with contextlib.ExitStack() as lock:
        try:
            lock.enter_context(locked(f"{directory}.lock"))
        except BlockingIOError:
            raise CannotReach(f"another learner is running in {place}") from None
        objects = ObjectStore(place)
        mirror = Mirror(objects, directory)
        with reaching(place, "read"):
            if not mirror.is_ahead():
                mirror.pull()
        check_writable(place)
        objects.remove_partial()
        _log.info("%s is kept from a copy in %s", place, directory)
        with _pushed(mirror, place, min(seconds, _MAX_SECONDS)):
            yield directory
        shutil.rmtree(directory, ignore_errors=True)


@contextlib.contextmanager
def _pushed(mirror: Mirror, place: str, seconds: float) -> Iterator[None]:
    """Pushes at intervals, and once more at the end."""
    done = threading.Event()
    outage = Outage(f"files in {place}", "training goes on and tries again", _log)

    def push_repeatedly() -> None:
        while not done.wait(seconds):
            with outage.tolerated():
                mirror.push()

    thread = threading.Thread(target=push_repeatedly, name="mirror", daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
        try:
            mirror.push()
        except OSError as error:
            raise CannotReach(
                f"{place} can't be written ({reason(error)}): the end of the run is in {mirror.directory}, and the "
                "next start here continues from it"
            ) from error


class Mirror:
    """A directory of this machine and the store that it is kept equal to; each side has a lock of its own."""

    def __init__(self, store: ObjectStore, directory: str):
        self.directory = directory
        self._store = store
        self._sent: dict[str, tuple[int, int]] = {}

    def is_ahead(self) -> bool:
        """Whether the directory has a later checkpoint than the store."""
        return _newest_checkpoint(self._local()) > _newest_checkpoint(self._store.files())

    def pull(self) -> None:
        """Makes the directory equal to the store."""
        stored = set(self._store.files()) - {_LOCK}
        for name in self._local().keys() - stored:
            os.remove(os.path.join(self.directory, name))
        for name in stored:
            path = os.path.join(self.directory, name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            self._store.fetch(name, path)
        self._sent = self._local()

    def push(self) -> None:
        """Sends changed files; a checkpoint that was removed here is removed there after its successor has arrived.

        Raises:
          OSError: the store can't be written; the next push sends the rest.
        """
        local = self._local()
        try:
            for name in [name for name, state in local.items() if self._sent.get(name) != state]:
                path = os.path.join(self.directory, name)
                with contextlib.suppress(FileNotFoundError), open(path, "rb") as file:  # else it was just removed
                    self._store.send(file, name)
                    self._sent[name] = local[name]
            for name in self._sent.keys() - local.keys():
                if name.startswith(_CHECKPOINTS):
                    self._store.remove(name)
                del self._sent[name]
        except Exception as error:  # every kind of store has errors of its own
            raise OSError(sentence(error)) from error

    def _local(self) -> dict[str, tuple[int, int]]:
        """Size and time of change of the files here, by name."""
        found: dict[str, tuple[int, int]] = {}
        for name in files_in(self.directory):
            with contextlib.suppress(FileNotFoundError):
                status = os.stat(os.path.join(self.directory, name))
                found[name] = (status.st_size, status.st_mtime_ns)
        found.pop(_LOCK, None)
        return found


def _newest_checkpoint(names: Iterable[str]) -> str:
    """Its name, which sorts by updates; "" if there is none."""
    return max((name for name in names if name.startswith(f"{_CHECKPOINTS}checkpoint-")), default="")
