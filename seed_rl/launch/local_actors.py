"""Actor processes on this machine, started and restarted by the process that trains."""

from __future__ import annotations

import contextlib
import logging
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence

from seed_rl.files import reason
from seed_rl.launch.last_words import how_it_ended
from seed_rl.transport.backoff import Backoff

_log = logging.getLogger(__name__)

_STABLE_SECONDS = 30.0  # an actor that lived so long starts anew without back-off


class ActorFailed(RuntimeError):
    """Actors end as soon as they start; the message carries the last words of one, and names its log."""


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
        self._told: set[str] = set()
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
            ended = self._run(number, path)
            if self._stop.is_set():
                return
            stable = time.monotonic() - started > _STABLE_SECONDS
            if stable:
                backoff.reset()
                failures = 0
            failures += 1
            if failures >= self._max_failures:
                self._give_up(f"actor {number} ended {failures} times in a row: {ended} (its log: {path})")
                return
            self.restarts += 1
            delay = backoff.next()
            # Where each of many actors ends at its start, and again, one says why.
            with self._lock:
                level = logging.WARNING if stable or ended not in self._told else logging.DEBUG
                self._told.add(ended)
            _log.log(level, "actor %d ended: %s; it starts again in %.1f s (its log: %s)", number, ended, delay, path)
            self._stop.wait(delay)

    def _give_up(self, sentence: str) -> None:
        with self._lock:
            if self.failed is None:  # one actor's reason will do: the others' is mostly the same
                self.failed = ActorFailed(sentence)
        self._on_failure()

    def _run(self, number: int, path: str) -> str:
        """Runs an actor to its end; returns how it ended."""
        command = [sys.executable, "-m", "seed_rl", "actor", "--exit_with_parent", *self._arguments]
        try:
            with open(path, "ab") as log, self._lock:
                if self._stop.is_set():
                    return "it was not started"
                begin = log.tell()
                process = subprocess.Popen(
                    command, stdin=subprocess.PIPE, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
                )
                self._processes[number] = process
            return how_it_ended(process.wait(), path, begin)
        except OSError as error:  # no log file, no process: both may be possible again later
            return f"it can't be started: {reason(error)}"
