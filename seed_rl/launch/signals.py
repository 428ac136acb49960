"""SIGINT, SIGTERM and SIGHUP ask a run to end, in good order."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import threading
import time
from collections.abc import Collection, Iterator
from types import FrameType

_INSIST_SECONDS = 1.0  # a signal to a process group may arrive twice at once; that is not yet impatience


class Stopped:
    """Whether a run is to end: set by the first SIGINT or SIGTERM, or by what makes it pointless to go on.

    A plain flag and not an Event, whose lock the main thread may hold when the signal arrives.
    """

    def __init__(self):
        self.exit_code = 0
        self._set = False

    def is_set(self) -> bool:
        """Whether to end."""
        return self._set

    def set(self) -> None:
        """Asks to end."""
        self._set = True

    def handle(self, number: int, frame: FrameType | None) -> None:
        """Handles a signal: it asks to end."""
        if not self.exit_code:
            self.exit_code = 128 + number
        self._set = True


@contextlib.contextmanager
def signals() -> Iterator[Stopped]:
    """SIGINT, SIGTERM and SIGHUP set the flag that this gives, until left; a second one ends the process at once."""
    stopped = Stopped()
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    with _insisting(numbers):
        before = {number: signal.signal(number, stopped.handle) for number in numbers}
        try:
            yield stopped
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


@contextlib.contextmanager
def _insisting(numbers: Collection[int]) -> Iterator[None]:
    """Ends the process at a signal that comes a second or more after another one.

    In a thread of its own: Python's handlers run in the main thread, and not while that is inside native code, where a
    learner may wait for another host.
    """
    ours, pythons = socket.socketpair()
    pythons.setblocking(False)

    def listen() -> None:
        first: float | None = None
        while received := ours.recv(1):
            now = time.monotonic()
            if received[0] not in numbers:
                continue
            if first is not None and now - first > _INSIST_SECONDS:
                os._exit(128 + received[0])  # the actors end with this process
            first = first or now

    with ours, pythons:
        before = signal.set_wakeup_fd(pythons.fileno(), warn_on_full_buffer=False)
        thread = threading.Thread(target=listen, name="signals", daemon=True)
        thread.start()
        try:
            yield
        finally:
            signal.set_wakeup_fd(before)
            pythons.shutdown(socket.SHUT_RDWR)
            thread.join()
