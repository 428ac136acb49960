"""Signal handling: SIGINT, SIGHUP and those of schedulers ask a run to end with a checkpoint."""

import contextlib
import math
import os
import signal
import socket
import sys
import termios
import threading
import time
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any, NamedTuple, Protocol

from seed_rl.system.files import remove_socket_directories

OF_SCHEDULERS = (signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2)
"""Signals by which clusters announce the end of a job, to the processes that it has started as well."""
ALL = (signal.SIGINT, signal.SIGHUP, *OF_SCHEDULERS)
"""Signals that ask a run to end."""
_SHOW_CURSOR = b"\x1b[?25h"  # undoes the hiding by a live display
_INSIST_SECONDS = 1.0  # a process group may get one Ctrl-C twice, so only later signals count as a second one


class Stop(Protocol):
    """Whether to end a run; a `threading.Event` will do."""

    def is_set(self) -> bool:
        """Return whether to end."""


class StopIf(NamedTuple):
    """Asks a function whether to end a run."""

    is_set: Callable[[], bool]


class StopFlag:
    """A flag that asks a run to end, and the exit code for the signal that set it.

    It is not an Event, because the main thread may hold the lock of an Event when a signal arrives.
    """

    def __init__(self):
        self.exit_code = 0
        self.raises = False
        """Whether a signal raises KeyboardInterrupt immediately, because there is nothing to save yet."""
        self.raised = False
        """Whether a signal has raised KeyboardInterrupt."""
        self._set = False

    def is_set(self) -> bool:
        """Return whether to end."""
        return self._set

    def set(self) -> None:
        """Ask to end."""
        self._set = True

    def asks(self) -> None:
        """Make signals ask from now on, because there is something to save."""
        self.raises = False

    def handle(self, number: int, frame: FrameType | None) -> None:
        """Handle a signal by asking to end."""
        self.exit_code = self.exit_code or 128 + number
        self._set = True
        if self.raises:
            self.raises, self.raised = False, True  # further signals must not interrupt the clean-up
            raise KeyboardInterrupt


@contextlib.contextmanager
def signals() -> Iterator[StopFlag]:
    """Let the first signal set a flag, and a signal more than a second later end the process immediately.

    Under `nohup`, SIGHUP remains ignored.
    If the flag `raises`, a signal ends the context without an error.
    """
    stopped = StopFlag()
    with _watched():
        hangs_up = signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN
        caught = [number for number in ALL if number is not signal.SIGHUP or hangs_up]
        before = {number: signal.signal(number, stopped.handle) for number in caught}
        try:
            yield stopped
        except (Exception, KeyboardInterrupt):  # native code may turn KeyboardInterrupt into other errors
            if not stopped.raised:
                raise
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def stop_at_end_of_input(stopped: StopFlag) -> None:
    """Start a thread that asks to end once standard input is closed, because the parent has ended in whatever way.

    If the flag `raises`, the process receives SIGTERM.
    """

    def read() -> None:
        while os.read(0, 1024):  # reading sys.stdin would hold a lock needed at exit
            pass
        if stopped.raises:
            os.kill(os.getpid(), signal.SIGTERM)
        stopped.set()

    threading.Thread(target=read, daemon=True).start()


@contextlib.contextmanager
def ctrl_c_asks() -> Iterator[StopFlag]:
    """Let Ctrl-C set a flag, and raise KeyboardInterrupt at the end of the context; a second one raises immediately.

    Does nothing outside of the main thread, or in a program that handles Ctrl-C itself.
    """
    stopped = StopFlag()
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
def _watched() -> Iterator[None]:
    """Watch signals in a thread, because Python runs handlers only once the main thread has left native code."""
    ours, pythons = socket.socketpair()
    pythons.setblocking(False)
    with ours, pythons:
        before = signal.set_wakeup_fd(pythons.fileno(), warn_on_full_buffer=False)
        thread = threading.Thread(target=_watch, args=(ours, _terminal()), name="signals", daemon=True)
        thread.start()
        try:
            yield
        finally:
            signal.set_wakeup_fd(before)
            pythons.shutdown(socket.SHUT_RDWR)
            thread.join()


def _watch(numbers: socket.socket, terminal: list[Any] | None) -> None:
    """End the process if a signal insists; for each one a byte comes from `numbers`, its number."""
    first = math.inf
    while received := numbers.recv(1):
        (number,), now = received, time.monotonic()
        if number not in ALL:
            continue
        if now - first > _INSIST_SECONDS:
            _leave(number, terminal)
        first = min(first, now)


def _leave(number: int, terminal: list[Any] | None) -> None:
    """Restore the terminal and end the process; its actors end with it."""
    try:
        # Changing the terminal from the background would stop this process.
        if terminal is not None and os.tcgetpgrp(sys.stderr.fileno()) == os.getpgrp():
            termios.tcsetattr(sys.stderr, termios.TCSANOW, terminal)
            os.write(sys.stderr.fileno(), _SHOW_CURSOR)
    finally:  # the terminal may be gone
        remove_socket_directories()
        os._exit(128 + number)


def _terminal() -> list[Any] | None:
    """Return the state of the terminal, which a display may change; None if there is no terminal."""
    try:
        return termios.tcgetattr(sys.stderr)
    except (OSError, ValueError, termios.error):
        return None
