"""Files that are never half written, locks, directories of sockets, and failures of files that a run survives."""

import contextlib
import dataclasses
import errno
import fcntl
import glob
import logging
import os
import pathlib
import resource
import shutil
import socket
import tempfile
import time
from collections.abc import Iterator
from typing import IO, TypeAlias

from seed_rl.errors import UsageError
from seed_rl.foreign import printable

StrPath: TypeAlias = str | os.PathLike[str]

PARTIAL = ".partial"
"""Suffix of files that are still being written."""

_MANY_FILES = 1 << 16  # with more, programs that loop over all possible descriptors would become slow
_LONGEST_PARENT = 68  # bytes; the path of a socket has at most 107
_LONGEST_REASON = 300  # characters
_STARTING_SECONDS = 60.0


def allow_many_files() -> None:
    """Raise the soft limit of open files, often 1024, to 65,536 or as far as allowed: each actor is a connection."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)  # Linux has no infinite ones
    if soft < (wanted := min(_MANY_FILES, hard)):
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


@contextlib.contextmanager
def complete_or_absent(path: str) -> Iterator[IO[bytes]]:
    """Open a file for writing that appears under its name once it is complete and on the disk."""
    partial = pathlib.Path(f"{path}{PARTIAL}")
    partial.unlink(missing_ok=True)  # if it is a symbolic link, open would follow it
    try:
        with open(partial, "xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, path)
    except BaseException:
        with contextlib.suppress(OSError):
            partial.unlink()  # to free space on a full disk
        raise
    descriptor = os.open(os.path.dirname(path) or ".", os.O_RDONLY)  # so that the rename survives a power failure
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def files_in(directory: str) -> list[str]:
    """Return the sorted relative names of all complete files below a directory; none if it doesn't exist."""
    names = (str(path.relative_to(directory)) for path in pathlib.Path(directory).rglob("*") if not path.is_dir())
    return sorted(name for name in names if not name.endswith(PARTIAL))


@contextlib.contextmanager
def locking(path: str) -> Iterator[None]:
    """Hold an exclusive lock on a file, which is created if necessary, at most until this process ends.

    Raises BlockingIOError if another process holds it, and OSError with what to do if there can't be a lock.
    """
    with open(path, "w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise
        except OSError as error:
            remedy = "choose a local directory, or mount it with locks (NFS: local_lock=flock)"
            raise OSError(error.errno, f"its file system gives no lock ({error.strerror}): {remedy}") from error
        yield


@contextlib.contextmanager
def socket_directory() -> Iterator[str]:
    """Create a temporary directory whose path is short enough for a unix socket; remove what killed processes left."""
    with contextlib.ExitStack() as cleanup:
        with explaining(UsageError, "there can't be a directory for the learner's socket (TMPDIR says where)"):
            parent = tempfile.gettempdir()
            if len(os.fsencode(parent)) > _LONGEST_PARENT:
                parent = "/tmp"
            # Of this machine: several may share the parent, and a socket of another one seems dead.
            prefix = f"seed_rl-{pathlib.Path('/proc/sys/kernel/random/boot_id').read_text()[:8]}-"
            _remove_dead_sockets(os.path.join(glob.escape(parent), f"{prefix}*", "*.sock"))
            place = tempfile.TemporaryDirectory(prefix=prefix, dir=parent, ignore_cleanup_errors=True)
            directory = cleanup.enter_context(place)
        yield directory


def _remove_dead_sockets(pattern: str) -> None:
    for path in glob.glob(pattern):
        with socket.socket(socket.AF_UNIX) as probe, contextlib.suppress(OSError):  # another user's, or just removed
            probe.setblocking(False)
            is_new = time.time() - os.stat(path).st_mtime < _STARTING_SECONDS  # perhaps bound and not listening yet
            if not is_new and probe.connect_ex(path) == errno.ECONNREFUSED:
                shutil.rmtree(os.path.dirname(path))


@dataclasses.dataclass
class Outage:
    """A period of failing writes or reads, as on a full disk: logged when it begins and when it ends."""

    what: str
    meanwhile: str
    log: logging.Logger
    act: str = "written"
    errors: type[Exception] = OSError
    _lasts: bool = dataclasses.field(default=False, init=False)

    @contextlib.contextmanager
    def tolerating(self) -> Iterator[None]:
        """Log an error instead of raising it."""
        try:
            yield
        except self.errors as error:
            if not self._lasts:
                self.log.error("%s can't be %s (%s): %s", self.what, self.act, reason(error), self.meanwhile)
            self._lasts = True
        else:
            if self._lasts:
                self.log.warning("%s can be %s again", self.what, self.act)
            self._lasts = False


def reason(error: BaseException) -> str:
    """Return an error's text on one line, at most 300 characters: of an `OSError`, without number and path."""
    text = (isinstance(error, OSError) and error.strerror) or str(error)
    return printable(" ".join(text.split())[:_LONGEST_REASON]) or type(error).__name__


@contextlib.contextmanager
def explaining(kind: type[Exception], what: str, *errors: type[Exception]) -> Iterator[None]:
    """Turn errors of some types, by default `OSError`, into one of a kind, `what: reason`, unless they are of it.

    A `MemoryError` stays one, so that `Exception` is the type for a reader that may raise anything at odd content.
    """
    caught = errors or (OSError,)
    try:
        yield
    except caught as error:
        if isinstance(error, (kind, MemoryError)):
            raise
        raise kind(f"{what}: {reason(error)}") from error
