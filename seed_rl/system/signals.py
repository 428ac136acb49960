"""SIGINT, SIGTERM and SIGHUP ask a run to end with a checkpoint."""

from __future__ import annotations

import contextlib
import math
import os
import signal
import socket
import sys
import termios
import threading
import time
from collections.abc import Iterator
from types import FrameType
from typing import Any

from seed_rl.system.children import guard_of

_guards: list[Any] = []
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_NATIVE_SECONDS = 1.5  # of native code, such as a compilation, after which a signal that raises ends the process
_SHOW_CURSOR = b"\x1b[?25h"  # a live display hides it
_INSIST_SECONDS = 1.0  # a process group may get one Ctrl-C twice: only a later signal is a second one


class Stopped:
    """Whether a run is to end, and the exit code that a signal asks for.

    A plain flag and not an Event, whose lock the main thread may hold when the signal arrives.
    """

    def __init__(self):
        self.exit_code = 0
        self.raises = False
        """Whether a signal raises KeyboardInterrupt at once, instead of asking: there is nothing to save yet."""
        self.raised = False
        self._set = False

    def is_set(self) -> bool:
        """Whether to end."""
        return self._set

    def set(self) -> None:
        """Asks to end."""
        self._set = True

    def asks(self) -> None:
        """From now on there is something to save: signals ask."""
        self.raises = False

    def handle(self, number: int, frame: FrameType | None) -> None:
        """Signal handler that asks to end."""
        self.exit_code = self.exit_code or 128 + number
        self._set = True
        if self.raises:
            self.raises, self.raised = False, True  # whatever follows cleans up
            raise KeyboardInterrupt


@contextlib.contextmanager
def signals() -> Iterator[Stopped]:
    """A first signal sets the flag; one that follows after a second or more ends the process at once.

    Where the flag `raises`, the context ends without an error.
    """
    stopped = Stopped()
    with _exits_from_native_code(stopped):
        before = {number: signal.signal(number, stopped.handle) for number in _SIGNALS}
        try:
            yield stopped
        except (Exception, KeyboardInterrupt):  # native code makes other errors of KeyboardInterrupt
            if not stopped.raised:
                raise
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def stop_at_end_of_input(stopped: Stopped) -> None:
    """Starts a thread that asks to end once standard input is closed, as when the parent has ended, however it did.

    Where the flag `raises`, the process ends as by SIGTERM. The programs that it has started, such as the engines of
    environments, are killed when it ends, if it leads a process group.
    """
    if os.getpgrp() == os.getpid():
        guard = guard_of([os.getpid()])
        _guards.append((guard, os.dup(guard.stdin.fileno())))  # type: ignore[union-attr]  # that nothing closes

    def read() -> None:
        while os.read(0, 1024):  # not through sys.stdin: a thread that reads keeps its lock, which Python takes at exit
            pass
        if stopped.raises:
            os.kill(os.getpid(), signal.SIGTERM)
        stopped.set()

    threading.Thread(target=read, daemon=True).start()


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
def _exits_from_native_code(stopped: Stopped) -> Iterator[None]:
    """Listens in a thread: Python's handlers wait for the main thread to leave native code, such as a compilation."""
    ours, pythons = socket.socketpair()
    pythons.setblocking(False)
    terminal = _terminal()

    def leave(number: int) -> None:
        try:
            # In the background, a change of the terminal would stop this process.
            if terminal is not None and os.tcgetpgrp(sys.stderr.fileno()) == os.getpgrp():
                termios.tcsetattr(sys.stderr, termios.TCSANOW, terminal)
                os.write(sys.stderr.fileno(), _SHOW_CURSOR)
        finally:  # the terminal may be gone
            os._exit(128 + number)  # the actors end with this process

    def listen() -> None:
        number, first = 0, math.inf
        while True:
            try:
                received = ours.recv(1)
            except TimeoutError:
                if stopped.raises:  # still: the handler has not run
                    leave(number)
                ours.settimeout(None)
                continue
            if not received:
                return
            if received[0] in _SIGNALS:
                number, now = received[0], time.monotonic()
                if now - first > _INSIST_SECONDS:
                    leave(number)
                first = min(first, now)
                ours.settimeout(_NATIVE_SECONDS if stopped.raises else None)

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


def _terminal() -> list[Any] | None:
    """The state of the terminal, which a display may change; None without one."""
    try:
        return termios.tcgetattr(sys.stderr)
    except (OSError, ValueError, termios.error):
        return None
