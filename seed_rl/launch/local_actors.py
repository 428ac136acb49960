"""Actor processes on this machine, started and restarted by the process that trains."""

from __future__ import annotations

import collections
import contextlib
import logging
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence

from seed_rl.transport.backoff import Backoff

_log = logging.getLogger(__name__)

_STABLE_SECONDS = 30.0  # an actor that lived so long starts anew without back-off
_LAST_WORDS = 20  # lines


class ActorFailed(RuntimeError):
    """Actors end as soon as they start; the message carries their last words."""


class LocalActors:
    """Keeps `count` actor processes running until stopped.

    An actor that ends is started again, after a growing delay if it keeps ending. Actors read a pipe that only this
    process holds: they end by themselves when this process is gone, however it ended.
    """

    def __init__(
        self,
        arguments: Sequence[str],
        count: int,
        log_directory: str,
        on_failure: Callable[[], None],
        max_failures: int = 3,
    ):
        """
        Args:
          arguments: of `python -m seed_rl actor`, without the address.
          count: processes.
          log_directory: where each writes `actor-<n>.log`.
          on_failure: called once `failed` is set.
          max_failures: an actor that ended so often in a row without living for 30 s is given up.
        """
        self.failed: ActorFailed | None = None
        self.restarts = 0
        self._arguments = list(arguments)
        self._log_directory = log_directory
        self._on_failure = on_failure
        self._max_failures = max_failures
        self._stop = threading.Event()
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        self._lock = threading.Lock()
        os.makedirs(log_directory, exist_ok=True)
        self._threads = [threading.Thread(target=self._keep, args=(n,), daemon=True) for n in range(count)]

    def start(self, address: str) -> None:
        """Starts the processes, for the learner at an address."""
        self._arguments.append(f"--server_address={address}")
        for thread in self._threads:
            thread.start()

    @property
    def pids(self) -> list[int]:
        """Of the processes that run at the moment."""
        with self._lock:
            return [process.pid for process in self._processes.values() if process.poll() is None]

    def stop(self, grace: float = 5.0) -> None:
        """Ends the processes: asks, and after `grace` seconds kills."""
        self._stop.set()
        with self._lock:
            running = list(self._processes.values())
        for process in running:
            with contextlib.suppress(ProcessLookupError):
                process.terminate()
        deadline = time.monotonic() + grace
        for process in running:
            try:
                process.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
        for thread in self._threads:
            if thread.ident is not None:
                thread.join()

    def _keep(self, number: int) -> None:
        backoff = Backoff()
        failures = 0
        path = os.path.join(self._log_directory, f"actor-{number}.log")
        while not self._stop.is_set():
            started = time.monotonic()
            code = self._run(number, path)
            if self._stop.is_set():
                return
            if time.monotonic() - started > _STABLE_SECONDS:
                backoff.reset()
                failures = 0
            failures += 1
            if failures >= self._max_failures:
                self.failed = ActorFailed(f"actor {number} ended {failures} times (exit code {code}): {_tail(path)}")
                self._on_failure()
                return
            self.restarts += 1
            delay = backoff.next()
            _log.warning("actor %d ended with exit code %d (see %s); restart in %.1f s", number, code, path, delay)
            self._stop.wait(delay)

    def _run(self, number: int, path: str) -> int:
        command = [sys.executable, "-m", "seed_rl", "actor", "--exit_with_parent", *self._arguments]
        with open(path, "ab") as log, self._lock:
            if self._stop.is_set():
                return 0
            process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
            )
            self._processes[number] = process
        return process.wait()


def _tail(path: str) -> str:
    with open(path, encoding="utf-8", errors="replace") as file:
        lines = collections.deque(file, maxlen=_LAST_WORDS)
    return f"its last words in {path}:\n" + "".join(lines)
