"""Processes that a benchmark starts and asks things of; they never outlive it."""

from __future__ import annotations

import contextlib
import logging
import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from multiprocessing.connection import Connection
from typing import Any

from benchmarks.failures import MeasurementFailed

_log = logging.getLogger(__name__)

_END_SECONDS = 60.0  # more than a product takes to write its last checkpoint


class ChildFailed(MeasurementFailed):
    """A process of the benchmark has failed or ended; the message says why."""


class Child:
    """A process that answers requests over a pipe, one at a time.

    It ends when this object is closed, and by itself when this process is gone, however it ended: the pipe tells it.
    """

    def __init__(self, name: str, serve: Callable[..., AbstractContextManager[Callable[[Any], Any]]], *arguments: Any):
        """
        Args:
          name: for messages, such as "the load generator".
          serve: a function of a module, runs in the process: a context manager that gives what answers requests.
          arguments: of `serve`; they are pickled.
        """
        self._name = name
        spawn = multiprocessing.get_context("spawn")
        self._connection, theirs = spawn.Pipe()
        self._process = spawn.Process(target=_run, args=(theirs, serve, arguments), daemon=True)
        self._process.start()
        theirs.close()

    @property
    def pid(self) -> int:
        """Of the process."""
        assert self._process.pid is not None
        return self._process.pid

    def wait_until_ready(self, timeout: float) -> None:
        """Waits until `serve` has begun to answer; to be called once, before the first request.

        Raises:
          ChildFailed: it has failed, or takes longer than `timeout` seconds.
        """
        self.receive(timeout)

    def ask(self, request: Any, timeout: float) -> Any:
        """The answer to a request.

        Raises:
          ChildFailed: the process has failed or ended, or takes longer than `timeout` seconds.
        """
        self.send(request)
        return self.receive(timeout)

    def send(self, request: Any) -> None:
        """Sends a request, whose answer is to be received."""
        try:
            self._connection.send(request)
        except OSError as error:
            raise ChildFailed(f"{self._name} has ended, exit code {self._process.exitcode}") from error

    def receive(self, timeout: float) -> Any:
        """See `ask`."""
        if not self._connection.poll(timeout):
            raise ChildFailed(f"{self._name} has not answered for {timeout:.0f} s")
        try:
            good, answer = self._connection.recv()
        except (EOFError, OSError) as error:
            self._process.join(_END_SECONDS)
            raise ChildFailed(f"{self._name} has ended, exit code {self._process.exitcode}") from error
        if not good:
            raise ChildFailed(f"{self._name} has failed: {answer}")
        return answer

    def close(self) -> None:
        """Ends the process: asks, and then kills. May be called twice."""
        self._connection.close()
        self._process.join(_END_SECONDS)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()

    def __enter__(self) -> Child:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def ask_all(children: Sequence[Child], request: Any, timeout: float) -> list[Any]:
    """The answers of several, which work on it at the same time."""
    for child in children:
        child.send(request)
    return [child.receive(timeout) for child in children]


def call_in_child(function: Callable[..., Any], *arguments: Any, timeout: float = 600.0) -> Any:
    """What a function of a module returns in a new process: for what is to leave no trace in this one."""
    with Child(f"the process for {function.__name__}", _calling) as child:
        child.wait_until_ready(timeout)
        return child.ask((function, arguments), timeout)


@contextmanager
def _calling() -> Iterator[Callable[[Any], Any]]:
    yield lambda call: call[0](*call[1])


def _run(
    connection: Connection,
    serve: Callable[..., AbstractContextManager[Callable[[Any], Any]]],
    arguments: Sequence[Any],
) -> None:
    # Ctrl-C reaches all processes of the terminal: the first one decides, and the pipe tells the others. With
    # a handler that does nothing, and not by ignoring, which the programs that this process starts would inherit.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: None)
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    try:
        with serve(*arguments) as answer:
            connection.send((True, None))
            while True:
                try:
                    request = connection.recv()
                except (EOFError, ConnectionResetError):  # closed, or the parent is gone
                    return
                connection.send((True, answer(request)))
    except BrokenPipeError:  # the parent left before the answer
        return
    except Exception as error:
        _log.debug("a process of the benchmark failed", exc_info=True)
        with contextlib.suppress(BrokenPipeError):  # nobody left to tell
            connection.send((False, str(error) or type(error).__name__))
