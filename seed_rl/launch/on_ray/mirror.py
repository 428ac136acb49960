"""A directory that is kept like another one, which grows on another machine."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from typing import NamedTuple

_PIECE_BYTES = 8 << 20


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


class Mirror:
    """Says what has changed in a directory since it was last asked. Files either grow, or are replaced as a whole."""

    def __init__(self, directory: str, leave_out: Collection[str] = ()):
        """
        Args:
          directory: to look at.
          leave_out: files in it that aren't looked at.
        """
        self._directory = directory
        self._leave_out = leave_out
        self._seen: dict[str, tuple[int, int]] = {}

    def changes(self) -> Iterator[Piece]:
        """What `apply` needs, in order; a file that vanishes meanwhile comes the next time as removed."""
        present = list(self._paths())
        for path in sorted(self._seen.keys() - set(present)):
            del self._seen[path]
            yield Piece(path, removed=True)
        for path in present:
            try:
                file = open(os.path.join(self._directory, path), "rb")  # noqa: SIM115
            except FileNotFoundError:
                continue
            with file:
                status = os.fstat(file.fileno())
                inode, size = self._seen.get(path, (0, 0))
                whole = inode != status.st_ino or status.st_size < size
                start = 0 if whole else size
                if start == status.st_size and not whole:
                    continue
                file.seek(start)
                while True:
                    data = file.read(min(_PIECE_BYTES, status.st_size - start))
                    last = start + len(data) >= status.st_size or not data
                    yield Piece(path, start, data, whole, last)
                    start += len(data)
                    if last:
                        break
                self._seen[path] = (status.st_ino, start)

    def skip(self) -> None:
        """Takes what is there as known."""
        for path in self._paths():
            status = os.stat(os.path.join(self._directory, path))
            self._seen[path] = (status.st_ino, status.st_size)

    def _paths(self) -> Iterator[str]:
        for folder, _, names in os.walk(self._directory):
            for name in sorted(names):
                path = os.path.relpath(os.path.join(folder, name), self._directory)
                if path not in self._leave_out and not name.endswith(".partial"):
                    yield path


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
        file.seek(piece.offset)
        file.write(piece.data)
    if piece.whole and piece.last:
        os.replace(written, path)
