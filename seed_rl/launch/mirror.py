"""A run's directory on this machine, kept equal to a log directory elsewhere.

A run appends to files, which an object store can't do, and its learner may be on another node than its log directory.
So the run works in a directory of its machine that starts as a copy of the store; changes are sent to the store now and
then and at the end. The store is the truth: a learner that was preempted on one machine continues from it on another.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import shutil
import threading
from collections.abc import Collection, Iterable, Iterator
from typing import IO, Protocol

from seed_rl.files import Outage, locked, reason
from seed_rl.object_store import CannotReach, ObjectStore, check_writable, files_in, is_url, reaching, sentence

_log = logging.getLogger(__name__)

_MAX_SECONDS = 30.0  # between copies to an object store
_CHECKPOINTS = "checkpoints/"


class Store(Protocol):
    """Where a log directory is kept; every kind has errors of its own."""

    def files(self) -> list[str]:
        """Names of the complete files, at any depth."""

    def fetch(self, name: str, path: str) -> None:
        """Copies a file to a path on this machine."""

    def send(self, file: IO[bytes], name: str) -> None:
        """Writes a file with the content of an open one."""

    def remove(self, name: str) -> None:
        """Removes a file, if it is there."""


@contextlib.contextmanager
def working_directory(place: str, seconds: float = _MAX_SECONDS) -> Iterator[str]:
    """The directory in which a run works: its log directory, or one of this machine that mirrors an object store.

    If an earlier learner was killed on this machine, or could not reach the store at its end, its directory is still
    here: the run continues from it if it has a later checkpoint than the store.

    Args:
      place: the log directory.
      seconds: between copies to the store, at most 30.

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
    os.makedirs(os.path.dirname(directory), exist_ok=True)
    with contextlib.ExitStack() as lock:
        try:
            lock.enter_context(locked(f"{directory}.lock"))
        except BlockingIOError:
            raise CannotReach(f"another learner is running in {place}") from None
        mirror = Mirror(place, ObjectStore(place), directory)
        if not mirror.is_ahead():
            mirror.pull()
        check_writable(place)
        _log.info("%s is kept from a copy in %s", place, directory)
        with mirror.kept(
            min(seconds, _MAX_SECONDS),
            f"the end of the run is in {directory}, and the next start here continues from it",
        ):
            yield directory
        shutil.rmtree(directory, ignore_errors=True)


class Mirror:
    """A directory of this machine and the store that it is kept equal to."""

    def __init__(self, place: str, store: Store, directory: str, private: Collection[str] = ("lock",)):
        """
        Args:
          place: name of the store for people.
          store: holds the files.
          directory: made if need be.
          private: files that each side has for itself.
        """
        self._place = place
        self._store = store
        self._directory = directory
        self._private = private
        self._sent: dict[str, tuple[int, int]] = {}

    def pull(self) -> None:
        """Makes the directory equal to the store.

        Raises:
          CannotReach: the store can't be read.
        """
        with reaching(self._place, "read"):
            stored = [name for name in self._store.files() if name not in self._private]
            for name in self._local().keys() - set(stored):
                os.remove(os.path.join(self._directory, name))
            for name in stored:
                path = os.path.join(self._directory, name)
                os.makedirs(os.path.dirname(path), exist_ok=True)
                self._store.fetch(name, path)
        self._sent = self._local()

    def is_ahead(self) -> bool:
        """Whether the directory has a later checkpoint than the store.

        Raises:
          CannotReach: the store can't be read.
        """
        here = _newest_checkpoint(self._local())
        with reaching(self._place, "read"):
            return bool(here) and here > _newest_checkpoint(self._store.files())

    def push(self) -> None:
        """Sends changed files; a checkpoint that was removed here is removed there after its successor has arrived.

        Raises:
          OSError: the store can't be written; the next push sends the rest.
        """
        local = self._local()
        try:
            for name, state in local.items():
                if self._sent.get(name) != state:
                    with contextlib.suppress(FileNotFoundError):  # a checkpoint that has just been removed
                        file = open(os.path.join(self._directory, name), "rb")  # noqa: SIM115
                        with file:
                            self._store.send(file, name)
                        self._sent[name] = state
            for name in self._sent.keys() - local.keys():
                if name.startswith(_CHECKPOINTS):
                    self._store.remove(name)
                del self._sent[name]
        except Exception as error:  # every kind of store has errors of its own
            raise OSError(sentence(error)) from error

    @contextlib.contextmanager
    def kept(self, seconds: float, otherwise: str) -> Iterator[None]:
        """Pushes every few seconds, and once more at the end.

        Args:
          seconds: between pushes.
          otherwise: what becomes of the end of the run if it can't be written.

        Raises:
          CannotReach: the end could not be written.
        """
        done = threading.Event()
        outage = Outage(f"files in {self._place}", "training goes on and tries again", _log)

        def push_repeatedly() -> None:
            while not done.wait(seconds):
                with outage.tolerated():
                    self.push()

        thread = threading.Thread(target=push_repeatedly, name="mirror", daemon=True)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()
            try:
                self.push()
            except OSError as error:
                raise CannotReach(f"{self._place} can't be written ({reason(error)}): {otherwise}") from error

    def _local(self) -> dict[str, tuple[int, int]]:
        """Size and time of change of the files here, by name."""
        found: dict[str, tuple[int, int]] = {}
        for name in files_in(self._directory):
            if name not in self._private:
                with contextlib.suppress(FileNotFoundError):
                    status = os.stat(os.path.join(self._directory, name))
                    found[name] = (status.st_size, status.st_mtime_ns)
        return found


def _newest_checkpoint(names: Iterable[str]) -> str:
    """Its name, which sorts by updates; "" if there is none."""
    return max((name for name in names if name.startswith(f"{_CHECKPOINTS}checkpoint-")), default="")
