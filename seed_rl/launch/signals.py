"""SIGINT, SIGTERM and SIGHUP ask a run to end, in good order."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterator
from types import FrameType

_INSIST_SECONDS = 1.0  # a signal to a process group may arrive twice at once; that is not yet impatience


class Stopped:
    """Whether a run is to end: set by the first SIGINT or SIGTERM, or by what makes it pointless to go on.

    A plain flag and not an Event, whose lock the main thread may hold when the signal arrives.
    """

    def __init__(self):
        self.exit_code = 0
        self._set = False
        self._signalled_at: float | None = None

    def is_set(self) -> bool:
        """Whether to end."""
        return self._set

    def set(self) -> None:
        """Asks to end."""
        self._set = True

    def handle(self, number: int, frame: FrameType | None) -> None:
        """Handles a signal: the first asks, another one after a second or more insists."""
        now = time.monotonic()
        if self._signalled_at is not None and now - self._signalled_at > _INSIST_SECONDS:
            os._exit(128 + number)  # the actors end with this process
        if self._signalled_at is None:
            self._signalled_at = now
        self.exit_code = 128 + number
        self._set = True


@contextlib.contextmanager
def signals() -> Iterator[Stopped]:
    """SIGINT, SIGTERM and SIGHUP set the flag that this gives, until left."""
    stopped = Stopped()
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, stopped.handle) for number in numbers}
    try:
        yield stopped
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
