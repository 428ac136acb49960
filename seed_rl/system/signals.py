"""Signals: SIGINT, SIGHUP and those of schedulers ask a run to end with a checkpoint."""

import contextlib
import os
import select
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from types import FrameType
from typing import NamedTuple, Protocol

OF_SCHEDULERS = (signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2)
"""Signals by which clusters announce the end of a job, to the processes that it has started as well."""
ALL = (signal.SIGINT, signal.SIGHUP, *OF_SCHEDULERS)
"""Signals that ask a run to end."""
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
        """Whether one has done so."""
        self._set = False
        self._signalled_at = 0.0

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
        """Handle a signal by asking to end.

        Raises KeyboardInterrupt, with the exit code of the first signal, if that came more than a second before.
        """
        if not self.exit_code:
            self.exit_code, self._signalled_at = 128 + number, time.monotonic()
        self._set = True
        if self.raises:
            self.raises, self.raised = False, True  # further signals must not interrupt the clean-up
            raise KeyboardInterrupt
        if not self.raised and time.monotonic() - self._signalled_at > _INSIST_SECONDS:
            raise KeyboardInterrupt(self.exit_code)


def not_ignored(numbers: Sequence[signal.Signals]) -> list[signal.Signals]:
    """Leave SIGHUP out of some signals where it is ignored, as under `nohup`."""
    return [number for number in numbers if number != signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN]


@contextlib.contextmanager
def signals(numbers: Sequence[signal.Signals] = ALL) -> Iterator[StopFlag]:
    """Let the first of these signals set a flag, and one more than a second later raise KeyboardInterrupt.

    Python handles a signal as soon as the main thread is out of native code. Under `nohup`, SIGHUP remains ignored;
    signals that the parent process had blocked are unblocked in the context. If the flag `raises`, a signal ends the
    context without an error.
    """
    stopped = StopFlag()
    caught = not_ignored(numbers)
    before = {number: signal.signal(number, stopped.handle) for number in caught}
    blocked = signal.pthread_sigmask(signal.SIG_UNBLOCK, caught)
    try:
        yield stopped
    except (Exception, KeyboardInterrupt):  # native code may turn KeyboardInterrupt into other errors
        if not stopped.raised:
            raise
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        for number, handler in before.items():
            signal.signal(number, handler)


def stop_with_parent(stopped: StopFlag) -> None:
    """Ask to end, with SIGTERM if the flag `raises`, once the parent has ended in any way or closed standard input."""
    parent = os.pidfd_open(os.getppid())  # forks of the parent, which outlive it, keep the input open

    def read() -> None:
        while parent not in (ready := select.select([0, parent], [], [])[0]):
            if 0 in ready and not os.read(0, 1024):  # reading sys.stdin would hold a lock needed at exit
                break
        if stopped.raises:
            os.kill(os.getpid(), signal.SIGTERM)
        stopped.set()

    threading.Thread(target=read, daemon=True).start()


@contextlib.contextmanager
def ctrl_c_asks() -> Iterator[StopFlag]:
    """Let Ctrl-C set a flag, as in `signals`, and raise KeyboardInterrupt at the end of the context.

    Does nothing outside of the main thread, or in a program that handles Ctrl-C itself.
    """
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield StopFlag()
        return
    with signals([signal.SIGINT]) as stopped:
        try:
            yield stopped
        except GeneratorExit:  # the caller has left the loop; Ctrl-C may have come since
            if stopped.is_set():
                raise KeyboardInterrupt from None
            raise
    if stopped.is_set():
        raise KeyboardInterrupt
