"""SIGINT, SIGTERM and SIGHUP ask a run to end with a checkpoint."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import threading
import time
from collections.abc import Iterator
from types import FrameType

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_INSIST_SECONDS = 1.0  # a process group may get one Ctrl-C twice: only a later signal is a second one


class Stopped:
    """Whether a run is to end, and the exit code that a signal asks for.

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
        """Signal handler that asks to end."""
        self.exit_code = self.exit_code or 128 + number
        self._set = True


@contextlib.contextmanager
def signals() -> Iterator[Stopped]:
    """A first signal sets the flag; one that follows after a second or more ends the process at once."""
    stopped = Stopped()
    with _second_signal_exits():
        before = {number: signal.signal(number, stopped.handle) for number in _SIGNALS}
        try:
            yield stopped
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


@contextlib.contextmanager
def ctrl_c_asks() -> Iterator[Stopped]:
    """For programs: a first Ctrl-C sets the flag, and raises KeyboardInterrupt at the end; a second one raises at once.

    Not outside of the main thread, nor in a program that handles Ctrl-C itself.
    """
    stopped = Stopped()
    handler, is_main = signal.getsignal(signal.SIGINT), threading.current_thread() is threading.main_thread()
    if not is_main or handler is not signal.default_int_handler:
        yield stopped
        return

    def handle(number: int, frame: FrameType | None) -> None:
        stopped.handle(number, frame)
        signal.signal(number, signal.default_int_handler)

    signal.signal(signal.SIGINT, handle)
    try:
        yield stopped
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if stopped.is_set():
        raise KeyboardInterrupt


@contextlib.contextmanager
def _second_signal_exits() -> Iterator[None]:
    """Listens in a thread: Python's handlers wait for the main thread to leave native code, such as a compilation."""
    ours, pythons = socket.socketpair()
    pythons.setblocking(False)

    def listen() -> None:
        first: float | None = None
        while received := ours.recv(1):
            now = time.monotonic()
            if received[0] not in _SIGNALS:
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
