"""Files that are never seen half written, and what to say when they can't be written."""

from __future__ import annotations

import contextlib
import logging
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


class Outage:
    """Writing that may fail for a while, on a full disk for one: it is told of at its beginning and at its end.

    outage = Outage("checkpoints", "training goes on", log)
    with outage.tolerated():
        write()
    """

    def __init__(self, what: str, meanwhile: str, log: logging.Logger):
        """
        Args:
          what: is written, in the plural.
          meanwhile: what happens until it can be written again.
          log: where it is told.
        """
        self._what = what
        self._meanwhile = meanwhile
        self._log = log
        self._lasts = False

    @contextlib.contextmanager
    def tolerated(self) -> Iterator[None]:
        """Takes an `OSError` of what is done inside for a failure to write."""
        try:
            yield
        except OSError as error:
            if not self._lasts:
                self._log.error("%s can't be written (%s): %s", self._what, reason(error), self._meanwhile)
            self._lasts = True
        else:
            if self._lasts:
                self._log.warning("%s can be written again", self._what)
            self._lasts = False


def reason(error: OSError) -> str:
    """Why something can't be done with a file, without the number that stands for it."""
    return error.strerror or str(error) or type(error).__name__
