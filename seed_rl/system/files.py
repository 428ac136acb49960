"""Files that are never half written, locks, places of sockets, and failures to write or read that a run survives."""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import fcntl
import glob
import logging
import os
import resource
import shutil
import socket
import tempfile
from collections.abc import Iterator
from typing import IO

PARTIAL = ".partial"
"""Ending of files that are being written."""


_MANY_FILES = 1 << 16
_LONGEST_PARENT = 80  # bytes


def allow_many_files() -> None:
    """Raises the soft limit of open files, often 1024, to the hard one, for a connection to each actor.

    No further than to 65,536: programs that go through all descriptors they might have would take long.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _MANY_FILES if hard == resource.RLIM_INFINITY else min(_MANY_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


@contextlib.contextmanager
def complete_or_absent(path: str) -> Iterator[IO[bytes]]:
    """Opens a file for writing that appears under its name once it is complete and on the disk."""
    partial = f"{path}{PARTIAL}"
    try:
        with contextlib.suppress(FileNotFoundError):
            os.remove(partial)  # a link there would be followed
        with open(partial, "xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.remove(partial)  # else it would keep a full disk full
        raise
    descriptor = os.open(os.path.dirname(path) or ".", os.O_RDONLY)  # makes the new name survive a power failure
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def locked(path: str) -> Iterator[None]:
    """Holds a file, made if need be, against other processes that lock it; the lock ends with this process.

    Raises:
      BlockingIOError: another process holds it.
      OSError: it can't be opened.
    """
    with open(path, "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield


@contextlib.contextmanager
def socket_directory() -> Iterator[str]:
    """A new directory for a unix socket, at most 107 bytes long; those that killed processes left are removed."""
    parent = tempfile.gettempdir()
    if len(os.fsencode(parent)) > _LONGEST_PARENT:
        parent = "/tmp"
    for path in glob.glob(os.path.join(glob.escape(parent), "seed_rl-*", "*.sock")):
        with socket.socket(socket.AF_UNIX) as probe, contextlib.suppress(OSError):  # of another user, or gone meanwhile
            probe.setblocking(False)
            if probe.connect_ex(path) == errno.ECONNREFUSED:
                shutil.rmtree(os.path.dirname(path))
    with tempfile.TemporaryDirectory(prefix="seed_rl-", dir=parent, ignore_cleanup_errors=True) as directory:
        yield directory


@dataclasses.dataclass
class Outage:
    """A time in which writing or reading fails, as on a full disk: logged when it starts and when it is over.

    outage = Outage("checkpoints", "training goes on", log)
    with outage.tolerated():
        write()
    """

    what: str
    """Plural noun for the files, such as "checkpoints"."""
    meanwhile: str
    """The consequence until writing works again."""
    log: logging.Logger
    """Gets the messages."""
    act: str = "written"
    """Past participle of the verb that fails."""
    _lasts: bool = dataclasses.field(default=False, init=False)

    @contextlib.contextmanager
    def tolerated(self) -> Iterator[None]:
        """Logs an `OSError` raised inside instead of passing it on."""
        try:
            yield
        except OSError as error:
            if not self._lasts:
                self.log.error("%s can't be %s (%s): %s", self.what, self.act, reason(error), self.meanwhile)
            self._lasts = True
        else:
            if self._lasts:
                self.log.warning("%s can be %s again", self.what, self.act)
            self._lasts = False


def reason(error: Exception) -> str:
    """Return the text of an error, for file errors without their number."""
    return getattr(error, "strerror", None) or str(error) or type(error).__name__


@contextlib.contextmanager
def explained(kind: type[Exception], what: str, *errors: type[Exception]) -> Iterator[None]:
    """Turn file errors, and further types of `errors`, into an error of a kind with the message `what: reason`.

    Errors that are of this kind already pass unchanged.
    """
    caught: tuple[type[Exception], ...] = (OSError, *errors)
    try:
        yield
    except kind:
        raise
    except caught as error:
        raise kind(f"{what}: {reason(error)}") from error
