"""A directory that is kept like another one, which grows on another machine."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection, Iterator
from typing import IO, NamedTuple

_PIECE_BYTES = 8 << 20
_END_BYTES = 4096


class Piece(NamedTuple):
    """A part of a file."""

    path: str
    """In the directory."""
    offset: int = 0
    data: bytes = b""
    whole: bool = False
    """Whether it belongs to a file that is new or has taken the place of another, and not to the end of a known one."""
    last: bool = True
    """Of a whole file."""
    removed: bool = False
    """There is no such file any more."""


class _Seen(NamedTuple):
    """A file as it was."""

    inode: int
    size: int
    changed_at: int
    end: bytes
    """Up to `_END_BYTES`: a file that still has them where they were has grown, and is not another one."""


class Watched:
    """Says what has changed in a directory since it was last asked."""

    def __init__(self, directory: str, leave_out: Collection[str] = ()):
        """
        Args:
          directory: to look at.
          leave_out: files in it that aren't looked at.
        """
        self._directory = directory
        self._leave_out = leave_out
        self._seen: dict[str, _Seen] = {}

    def changes(self) -> Iterator[Piece]:
        """What `apply` needs, in order; a file that vanishes meanwhile comes the next time as removed."""
        present = list(self._paths())
        for path in sorted(self._seen.keys() - set(present)):
            del self._seen[path]
            yield Piece(path, removed=True)
        for path in present:
            with self._opened(path) as file:
                if file is not None:
                    yield from self._changes_of(path, file)

    def _changes_of(self, path: str, file: IO[bytes]) -> Iterator[Piece]:
        status, seen = os.fstat(file.fileno()), self._seen.get(path)
        if seen and (seen.inode, seen.size, seen.changed_at) == (status.st_ino, status.st_size, status.st_mtime_ns):
            return
        grown = seen is not None and seen.inode == status.st_ino and _end(file, seen.size) == seen.end
        start = seen.size if seen is not None and grown else 0
        file.seek(start)
        while start < status.st_size or not grown:
            data = file.read(min(_PIECE_BYTES, status.st_size - start))
            last = start + len(data) >= status.st_size or not data
            yield Piece(path, start, data, not grown, last)
            start += len(data)
            if last:
                break
        self._seen[path] = _Seen(status.st_ino, start, status.st_mtime_ns, _end(file, start))

    def skip(self) -> None:
        """Takes what is there as known."""
        for path in self._paths():
            with self._opened(path) as file:
                if file is not None:
                    status = os.fstat(file.fileno())
                    end = _end(file, status.st_size)
                    self._seen[path] = _Seen(status.st_ino, status.st_size, status.st_mtime_ns, end)

    @contextlib.contextmanager
    def _opened(self, path: str) -> Iterator[IO[bytes] | None]:
        try:
            file = open(os.path.join(self._directory, path), "rb")  # noqa: SIM115
        except FileNotFoundError:
            yield None
            return
        with file:
            yield file

    def _paths(self) -> Iterator[str]:
        for folder, _, names in os.walk(self._directory):
            for name in sorted(names):
                path = os.path.relpath(os.path.join(folder, name), self._directory)
                if path not in self._leave_out and not name.endswith(".partial"):
                    yield path


def _end(file: IO[bytes], size: int) -> bytes:
    """The last bytes of the first `size`; fewer if the file is shorter."""
    file.seek(max(0, size - _END_BYTES))
    return file.read(min(size, _END_BYTES))


def apply(directory: str, piece: Piece) -> None:
    """Makes a change. A file that comes as a whole is there under its name when it is complete.

    Raises:
      OSError: the directory can't be written.
    """
    path = os.path.join(directory, piece.path)
    if piece.removed:
        if os.path.exists(path):
            os.remove(path)
        return
    os.makedirs(os.path.dirname(path), exist_ok=True)
    written = f"{path}.partial" if piece.whole else path
    with open(written, "wb" if piece.whole and piece.offset == 0 else "r+b") as file:
        if file.seek(0, os.SEEK_END) < piece.offset:
            raise OSError(f"{piece.path} lacks what could not be written before")
        file.seek(piece.offset)
        file.write(piece.data)
    if piece.whole and piece.last:
        os.replace(written, path)
