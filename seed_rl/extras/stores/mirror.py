"""A local working directory for a run whose log directory is in an object store.

A run appends to files, which an object store can't do. So the run works in a local copy of the store, and uploads
changed files at intervals and at the end. The store is authoritative: a learner preempted on one machine continues from
it on another.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import re
import shutil
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import IO

from seed_rl.errors import Failure, UsageError
from seed_rl.foreign import short_repr
from seed_rl.runs.run_directory import CannotUse
from seed_rl.system.files import PARTIAL, Outage, explaining, files_in, locking, reason

_log = logging.getLogger(__name__)

_BLOCK = 32 << 20  # bytes per request of an upload
_MAX_SECONDS = 30.0
_CHECKPOINTS, _CHECKPOINT, _LOCK = "checkpoints/", "checkpoints/checkpoint-", "lock"


@contextlib.contextmanager
def working_directory(
    place: str, seconds: float = _MAX_SECONDS, opened: Callable[[Callable[[], None]], None] = lambda push: None
) -> Iterator[str]:
    """Yield the directory in which a run works, the local mirror of its log directory in an object store.

    The mirror is uploaded every `seconds`, at least every 30. It outlives a learner that is killed, or can't reach the
    store at its end. The next run here then continues from it if its newest checkpoint is newer than the store's.

    `opened` is called with a function that uploads what has changed.

    Raises a CannotUse if the URL can't be meant, or the mirror has no place; and a Failure if another learner here uses
    it or, now or at the end, if the store can't be reached.
    """
    cache = os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "seed_rl")
    short, identity = os.path.basename(place.rstrip("/")), hashlib.sha256(place.encode()).hexdigest()[:12]
    directory = os.path.join(cache, f"{short}-{identity}")
    with contextlib.ExitStack() as lock:
        try:
            os.makedirs(cache, exist_ok=True)
            lock.enter_context(locking(f"{directory}.lock"))
        except BlockingIOError:
            raise Failure(f"another learner is running in {place}") from None
        except OSError as error:
            remedy = "XDG_CACHE_HOME may name another directory"
            raise CannotUse(f"{place} can't be mirrored in {cache} ({reason(error)}): {remedy}") from error
        mirror = Mirror(ObjectStore(place), directory)
        with reaching(place, "read"):
            mirror.begin()
        with reaching(place, "written"):
            mirror.store.check_writable()
            mirror.store.remove_partial()
        _log.info("%s is mirrored in %s", place, directory)
        with _pushed(mirror, place, min(seconds, _MAX_SECONDS)) as push:
            opened(push)
            yield directory


@contextlib.contextmanager
def _pushed(mirror: Mirror, place: str, seconds: float) -> Iterator[Callable[[], None]]:
    done, pushing = threading.Event(), threading.Lock()
    outage = Outage(f"files in {place}", "training continues, with retries", _log, errors=Exception)

    def push() -> None:
        with pushing, reaching(place, "written"):
            mirror.push()

    def push_repeatedly() -> None:
        while not done.wait(seconds):
            with outage.tolerating(), pushing:
                mirror.push()

    thread = threading.Thread(target=push_repeatedly, name="mirror", daemon=True)
    thread.start()
    try:
        yield push
    finally:
        done.set()
        thread.join()
        try:
            push()
        except (CannotUse, Failure) as error:
            kept = f"the end of the run is in {mirror.directory}, and the next run here continues from it"
            raise type(error)(f"{error}; {kept}") from error
        shutil.rmtree(mirror.directory, ignore_errors=True)  # the store has all of it


class Mirror:
    """A local directory and the object store that it mirrors. Each side has its own lock file."""

    def __init__(self, store: ObjectStore, directory: str):
        self.store, self.directory = store, directory
        self._sent: dict[str, tuple[int, int]] = {}

    def begin(self) -> None:
        """Make the directory equal to the store, unless its newest checkpoint is newer.

        Then those of the store, with their replays, are outdated, and the next push removes them.
        """
        local, stored = self._local(), set(filter(_is_ours, self.store.files()))
        if _newest_checkpoint(local) > _newest_checkpoint(stored):
            newer = f"{_newest_checkpoint(local)} in {self.directory}"
            _log.warning("the run continues from %s, which an earlier learner here didn't upload", newer)
            outdated = re.compile(rf"{_CHECKPOINTS}(checkpoint|replay)-")
            self._sent = dict.fromkeys(filter(outdated.match, stored), (-1, -1))
            return
        for name in local.keys() - stored:
            os.remove(os.path.join(self.directory, name))
        for name in stored:
            self.store.fetch(name, os.path.join(self.directory, name))
        self._sent = self._local()

    def push(self) -> None:
        """Upload changed files, or after an error the rest; then remove checkpoints that were removed here.

        Checkpoints come last: what belongs to one, such as a replay, is there before it.
        """
        local = self._local()
        changed = [name for name, state in local.items() if self._sent.get(name) != state]
        for name in sorted(changed, key=lambda name: (name.startswith(_CHECKPOINT), name)):
            path = os.path.join(self.directory, name)
            try:
                file = open(path, "rb")  # noqa: SIM115
            except FileNotFoundError:  # just removed, as a newer one is there, which the next push finds
                if name.startswith(_CHECKPOINTS):
                    return
                continue
            with file:
                self.store.send(file, name)
            self._sent[name] = local[name]
        for name in self._sent.keys() - local.keys():
            if name.startswith(_CHECKPOINTS):
                self.store.remove(name)
            del self._sent[name]

    def _local(self) -> dict[str, tuple[int, int]]:
        """Return size and modification time [ns] of the local files by name."""
        found: dict[str, tuple[int, int]] = {}
        for name in filter(_is_ours, files_in(self.directory)):
            with contextlib.suppress(FileNotFoundError):
                status = os.stat(os.path.join(self.directory, name))
                found[name] = (status.st_size, status.st_mtime_ns)
        return found


def _is_ours(name: str) -> bool:
    """Whether a file is mirrored: neither a lock nor a file of another learner host, which mirrors its own."""
    return name != _LOCK and not re.match(r"host-\d+/", name)


def _newest_checkpoint(names: Iterable[str]) -> str:
    return max((name for name in names if name.startswith(_CHECKPOINT)), default="")  # by updates


class ObjectStore:
    """A directory in an object store, whose methods raise the errors of the store's own package; see `reaching`."""

    def __init__(self, url: str):
        """Raise a CannotUse if fsspec or its package for this protocol is missing, or the protocol is unknown."""
        try:
            from fsspec.core import url_to_fs
            from fsspec.implementations.dirfs import DirFileSystem
        except ImportError as error:
            raise CannotUse(f"{url} needs fsspec: pip install fsspec") from error
        with explaining(CannotUse, f"{url} can't be used here", ImportError, ValueError):
            system, path = url_to_fs(url.rstrip("/"))
        self._system = DirFileSystem(fo=path.rstrip("/"), fs=system)  # fsspec before 2026 takes a `path` "" for None

    def files(self) -> list[str]:
        """Return the sorted relative names of all complete files, none of which leads out of the directory."""
        names = sorted(name for name in self._names() if not name.endswith(PARTIAL))
        for name in names:
            if re.search(r"(^|/)\.{0,2}(/|$)|\0", name):
                raise ValueError(f"expected a file name inside of the directory, got {short_repr(name)}")
        return names

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
            if name.endswith(PARTIAL) and _is_ours(name):
                self.remove(name)

    def fetch(self, name: str, path: str) -> None:
        """Copy a file to a local path, whose directory is created if necessary."""
        os.makedirs(os.path.dirname(path), exist_ok=True)
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
        with contextlib.suppress(FileNotFoundError):
            self._system.rm_file(name)

    def check_writable(self) -> None:
        """Upload an empty file and remove it."""
        with open(os.devnull, "rb") as nothing:
            self.send(nothing, ".seed_rl")
        self.remove(".seed_rl")


@contextlib.contextmanager
def reaching(url: str, done: str) -> Iterator[None]:
    """Turn every error into a CannotUse for a place that can't be meant, and else a Failure, which may pass.

    The URL can't be `done`, such as "read".
    """
    try:
        yield
    except (Failure, UsageError, MemoryError):
        raise
    except Exception as error:  # each store's package has its own errors
        kind = CannotUse if isinstance(error, FileNotFoundError) else Failure
        raise kind(f"{url} can't be {done}: {reason(error)}") from error
