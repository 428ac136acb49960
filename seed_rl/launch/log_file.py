"""A log file on a disk that may be full."""

from __future__ import annotations

import contextlib
import logging
import sys

from seed_rl.files import reason


class LogFile(logging.FileHandler):
    """Says once on standard error that it can't be written, where logging's own handlers print a traceback each time.

    What doesn't fit is written later if there is room again, as much of it as fits into the file's buffer.
    """

    def __init__(self, path: str):
        """
        Args:
          path: lines are appended to it.
        """
        super().__init__(path, encoding="utf-8")
        self.setFormatter(logging.Formatter("%(asctime)s %(levelname).1s %(name)s: %(message)s"))
        self._told = False

    def handleError(self, record: logging.LogRecord) -> None:
        """Called by `emit` while the error is handled."""
        error = sys.exc_info()[1]
        if not isinstance(error, OSError):
            super().handleError(record)
        elif not self._told:
            self._told = True
            with contextlib.suppress(OSError):  # standard error may be on the same disk
                print(f"seed_rl: {self.baseFilename} can't be written: {reason(error)}", file=sys.stderr)

    def close(self) -> None:
        """Closes the file; lines that don't fit on the disk are lost."""
        with contextlib.suppress(OSError):
            super().close()
