"""Keeps a log directory on the node of the user's process while the learner writes on another node."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import IO, NamedTuple

from seed_rl.files import PARTIAL

_PIECE_BYTES = 8 << 20
_TAIL_BYTES = 4096


class Piece(NamedTuple):
    """An event: a part of a file was written, or the file removed."""

    name: str
    offset: int = 0
    data: bytes | None = None
    """None: the file is removed."""
    replaces: bool = False
    """Whether it belongs to a new file, which appears with its last piece, and not to the end of a known one."""
    last: bool = True

    def apply(self, directory: str) -> None:
        """Makes the same change in a directory.

        Raises:
          OSError: it can't be written, or lacks the pieces before this one.
        """
        path = os.path.join(directory, self.name)
        if self.data is None:
            os.remove(path)
            return
        os.makedirs(os.path.dirname(path), exist_ok=True)
        written = f"{path}{PARTIAL}" if self.replaces else path
        with open(written, "wb" if self.replaces and not self.offset else "r+b") as file:
            if file.seek(0, os.SEEK_END) < self.offset:
                raise OSError(f"{self.name} lacks pieces that could not be written before")
            file.seek(self.offset)
            file.write(self.data)
        if self.replaces and self.last:
            os.replace(written, path)


class RemoteStore:
    """The store of a mirror whose files are on another node; of a file that has grown only the new part is sent."""

    def __init__(self, names: Sequence[str], read: Callable[[str], bytes], send: Callable[[Piece], None]):
        """
        Args:
          names: of the files at the start.
          read: returns the content of one of them.
          send: sends a piece.
        """
        self._names = names
        self._read = read
        self._send = send
        self._sent: dict[str, tuple[int, int, bytes]] = {}  # inode, size and last bytes

    def files(self) -> list[str]:
        """Names of the files at the start."""
        return list(self._names)

    def fetch(self, name: str, path: str) -> None:
        """Writes one of them to a path on this node."""
        with open(path, "wb") as file:
            file.write(self._read(name))

    def send(self, file: IO[bytes], name: str) -> None:
        """Sends the content of an open file, as large as it is now."""
        status = os.fstat(file.fileno())
        inode, offset, tail = self._sent.get(name, (0, 0, b""))
        grown = inode == status.st_ino and _tail(file, offset) == tail
        offset, last = offset if grown else 0, False
        file.seek(offset)
        while not last:
            data = file.read(min(_PIECE_BYTES, max(0, status.st_size - offset)))
            last = not data or offset + len(data) >= status.st_size
            self._send(Piece(name, offset, data, not grown, last))
            offset += len(data)
        self._sent[name] = (status.st_ino, offset, _tail(file, offset))

    def remove(self, name: str) -> None:
        """Sends that a file was removed."""
        self._send(Piece(name))


def _tail(file: IO[bytes], size: int) -> bytes:
    """The last of the first `size` bytes."""
    file.seek(max(0, size - _TAIL_BYTES))
    return file.read(min(size, _TAIL_BYTES))
