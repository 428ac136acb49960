"""Files that grow by whole records."""

from __future__ import annotations

import os


class AppendedFile:
    """A file to whose end records are written, each whole or not at all.

    Where a disk is full, a write may take a part of a record and fail at the rest: that part is removed, so that the
    next record begins where the last whole one ended. Nothing is buffered; the file is made by the first record.
    """

    def __init__(self, path: str):
        self._path = path
        self._descriptor: int | None = None

    def append(self, record: bytes) -> None:
        """Writes a record.

        Raises:
          OSError: nothing of it is in the file.
        """
        if self._descriptor is None:
            self._descriptor = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o666)
        size = os.fstat(self._descriptor).st_size
        rest = memoryview(record)
        try:
            while rest:
                rest = rest[os.write(self._descriptor, rest) :]
        except OSError:
            os.ftruncate(self._descriptor, size)
            raise

    def close(self) -> None:
        """Closes the file; the next record would open it again."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
