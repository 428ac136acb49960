"""Files that are never seen half written."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import IO


@contextlib.contextmanager
def complete_or_absent(path: str) -> Iterator[IO[bytes]]:
    """Opens a file for writing that appears under its name once it is complete and on the disk."""
    partial = f"{path}.partial"
    try:
        with open(partial, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.remove(partial)  # what fills a disk must not stay
        raise
    descriptor = os.open(os.path.dirname(path) or ".", os.O_RDONLY)  # makes the new name survive a power failure
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
