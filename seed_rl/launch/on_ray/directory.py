"""A directory that is read and written from another node of the cluster."""

from __future__ import annotations

import contextlib
import os
from typing import IO, Any

import ray

from seed_rl.files import PARTIAL
from seed_rl.object_store import files_in

_PIECE_BYTES = 8 << 20
_TAIL_BYTES = 4096


class Directory:
    """A Ray actor that reads and writes a directory of its node."""

    def __init__(self, path: str):
        self._path = path

    def files(self) -> list[str]:
        """Names of the complete files, at any depth."""
        return files_in(self._path)

    def read(self, name: str, offset: int) -> bytes:
        """A piece of a file; empty at its end."""
        with open(os.path.join(self._path, name), "rb") as file:
            file.seek(offset)
            return file.read(_PIECE_BYTES)

    def write(self, name: str, offset: int, data: bytes) -> None:
        """Puts a piece where a file ends; a longer file is cut there first, so that a repeated call does no harm.

        Raises:
          OSError: the file ends before, or can't be written.
        """
        path = os.path.join(self._path, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "r+b" if offset else "wb") as file:
            if file.seek(0, os.SEEK_END) < offset:
                raise OSError(f"{name} lacks its first part")
            file.truncate(offset)
            file.seek(offset)
            file.write(data)

    def rename(self, name: str, to: str) -> None:
        """Gives a file another name."""
        os.replace(os.path.join(self._path, name), os.path.join(self._path, to))

    def remove(self, name: str) -> None:
        """Removes a file, if it is there."""
        with contextlib.suppress(FileNotFoundError):
            os.remove(os.path.join(self._path, name))


class RemoteStore:
    """A directory of another node as the store of a mirror. Of a file that has grown only the rest is sent."""

    def __init__(self, directory: Any):
        """
        Args:
          directory: handle of a `Directory`.
        """
        self._directory = directory
        self._sent: dict[str, tuple[int, int, bytes]] = {}  # inode, size and last bytes

    def files(self) -> list[str]:
        """Names of the complete files, at any depth."""
        names: list[str] = ray.get(self._directory.files.remote())
        return names

    def fetch(self, name: str, path: str) -> None:
        """Copies a file to a path on this node."""
        with open(path, "wb") as file:
            while piece := ray.get(self._directory.read.remote(name, file.tell())):
                file.write(piece)

    def send(self, file: IO[bytes], name: str) -> None:
        """Writes a file with the content of an open one; it appears when it is complete."""
        status = os.fstat(file.fileno())
        inode, size, tail = self._sent.pop(name, (0, 0, b""))
        grown = inode == status.st_ino and _tail(file, size) == tail
        target, offset = (name, size) if grown else (name + PARTIAL, 0)
        while offset < status.st_size or not offset:
            file.seek(offset)
            data = file.read(min(_PIECE_BYTES, status.st_size - offset))
            ray.get(self._directory.write.remote(target, offset, data))
            offset += len(data)
            if not data:  # an empty file, or one that was cut meanwhile
                break
        if not grown:
            ray.get(self._directory.rename.remote(target, name))
        self._sent[name] = (status.st_ino, offset, _tail(file, offset))

    def remove(self, name: str) -> None:
        """Removes a file, if it is there."""
        ray.get(self._directory.remove.remote(name))


def _tail(file: IO[bytes], size: int) -> bytes:
    """The last of the first `size` bytes."""
    file.seek(max(0, size - _TAIL_BYTES))
    return file.read(min(size, _TAIL_BYTES))
