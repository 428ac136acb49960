"""Actors on this machine: processes that are restarted when they end, or threads of the learner's process."""

from __future__ import annotations

import logging
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence

from seed_rl.actor.loop import Actor, growing_delays
from seed_rl.files import reason
from seed_rl.transport.client import LearnerClient
from seed_rl.transport.credentials import ClientSecurity

_log = logging.getLogger(__name__)

_STABLE_SECONDS = 30.0
_MAX_QUOTE = 500  # characters
_MAX_READ = 64 * 1024  # bytes at the end of a process's output
# A command that fails prints `seed_rl train: ...`; the traceback of an error of ours ends with `seed_rl.x.Error: ...`.
_SENTENCE = re.compile(r"seed_rl(?: \w+|[\w.]*): (?P<sentence>.+)")
_LOG_LINE = re.compile(r"\d\d:\d\d:\d\d [DIWEC] ")


class ActorFailed(RuntimeError):
    """Actors that end as soon as they start; the message quotes one of them and names its log."""


class Retries:
    """When to restart something that keeps failing: after a growing delay, and not after too many failures in a row.

    A start that lasts 30 s ends the row.
    """

    def __init__(self, max_failures: int = 3):
        self.failures = 0
        """In a row."""
        self._max_failures = max_failures
        self._delays = growing_delays()

    def next_delay(self, lasted: float) -> float | None:
        """Seconds to wait after a start that lasted this many seconds; None to give up."""
        if lasted > _STABLE_SECONDS:
            self._delays = growing_delays()
            self.failures = 0
        self.failures += 1
        return None if self.failures >= self._max_failures else next(self._delays)


class LocalActors:
    """Keeps `count` actor processes running until stopped.

    An actor that ends is restarted, after a growing delay if it keeps ending. Actors read a pipe that only this process
    holds: they end by themselves when this process is gone, however it ended.
    """

    def __init__(
        self,
        arguments: Sequence[str],
        count: int,
        log_directory: str,
        on_failure: Callable[[], None] = lambda: None,
        max_failures: int = 3,
    ):
        """
        Args:
          arguments: of `python -m seed_rl actor`, without the address.
          count: processes.
          log_directory: where each writes `actor-<n>.log`.
          on_failure: called once `failed` is set.
          max_failures: an actor that fails this often in a row, without running for 30 s, is given up.
        """
        self.failed: ActorFailed | None = None
        self.restarts = 0
        self._command = [sys.executable, "-m", "seed_rl", "actor", "--exit_with_parent", *arguments]
        self._log_directory = log_directory
        self._on_failure = on_failure
        self._max_failures = max_failures
        self._stop = threading.Event()
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        self._lock = threading.Lock()
        self._reported: set[str] = set()
        os.makedirs(log_directory, exist_ok=True)
        self._threads = [threading.Thread(target=self._keep, args=(n,), daemon=True) for n in range(count)]

    def start(self, address: str) -> None:
        """Starts the processes, for the learner at an address."""
        self._command.append(f"--server_address={address}")
        for thread in self._threads:
            thread.start()

    @property
    def pids(self) -> list[int]:
        """Of the processes that are running."""
        return [process.pid for process in list(self._processes.values()) if process.poll() is None]

    def stop(self, grace: float = 5.0) -> None:
        """Ends the processes: terminates them, and kills those that are left after `grace` seconds."""
        self._stop.set()
        running = list(self._processes.values())
        for process in running:
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
        retries = Retries(self._max_failures)
        path = os.path.join(self._log_directory, f"actor-{number}.log")

        def wait(process: subprocess.Popen[bytes]) -> int:
            self._processes[number] = process
            if self._stop.is_set():  # `stop` may not have seen this process
                process.terminate()
            return process.wait()

        while not self._stop.is_set():
            started = time.monotonic()
            try:
                _, ended = run_logged(self._command, path, wait)
            except OSError as error:  # no log file, no process: both may be possible again later
                ended = f"it can't be started: {reason(error)}"
            if self._stop.is_set():
                return
            lasted = time.monotonic() - started
            delay = retries.next_delay(lasted)
            with self._lock:
                if delay is None:  # the other actors mostly end for the same reason
                    sentence = f"actor {number} ended {retries.failures} times in a row: {ended} (its log: {path})"
                    self.failed = self.failed or ActorFailed(sentence)
                    break
                self.restarts += 1
                # One warning stands for many actors that end at their start for the same reason, and end again.
                repeated = ended in self._reported and lasted <= _STABLE_SECONDS
                self._reported.add(ended)
            level = logging.DEBUG if repeated else logging.WARNING
            _log.log(level, "actor %d ended: %s; it starts again in %.1f s (its log: %s)", number, ended, delay, path)
            self._stop.wait(delay)
        if not self._stop.is_set():
            self._on_failure()


def run_logged(command: Sequence[str], path: str, wait: Callable[[subprocess.Popen[bytes]], int]) -> tuple[int, str]:
    """Runs a command in a session of its own, out of the reach of Ctrl-C, and appends its output to a file.

    Args:
      command: to run; its standard input is an empty pipe that ends with this process.
      path: of the file.
      wait: waits for the process, and returns its exit code.

    Returns:
      The exit code, and how the process ended, in one line.

    Raises:
      OSError: it can't be started.
    """
    with open(path, "ab") as log:
        begin = log.tell()
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
        )
    with process:
        code = wait(process)
    return code, how_it_ended(code, path, begin)


def how_it_ended(code: int, path: str, begin: int = 0) -> str:
    """How a process ended, in one line: the sentence or the last line that it wrote, else its exit code or signal.

    Args:
      code: its exit code as `subprocess` gives it: a negative one is the signal that killed it.
      path: of the file with its output.
      begin: where in the file the output begins, bytes.
    """
    with open(path, "rb") as file:
        file.seek(max(begin, os.path.getsize(path) - _MAX_READ))
        lines = [line.strip() for line in file.read().decode(errors="replace").splitlines() if line.strip()]
    sentences = [found["sentence"] for line in lines if (found := _SENTENCE.fullmatch(line))]
    last = [line for line in lines[-1:] if not _LOG_LINE.match(line)]
    quote = next(iter(sentences[-1:] or last), "")[:_MAX_QUOTE]
    if code >= 0:
        return quote or f"exit code {code}"
    names = {number.value: number.name for number in signal.Signals}
    killed = f"killed by {names.get(-code, f'signal {-code}')}"
    return f"{killed}: {quote}" if quote else killed


class ActorThreads:
    """Runs `count` actors in threads of the learner's process until stopped; the first that fails ends the run."""

    def __init__(self, count: int):
        self.failed: ActorFailed | None = None
        self._count = count
        self._actors: list[Actor] = []
        self._threads: list[threading.Thread] = []

    def start(self, address: str) -> None:
        """Connects them to the learner."""
        self._actors = [Actor(lambda: LearnerClient(address, ClientSecurity())) for _ in range(self._count)]
        self._threads = [
            threading.Thread(target=self._run, args=(number, actor), name=f"actor-{number}", daemon=True)
            for number, actor in enumerate(self._actors)
        ]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Ends them."""
        for actor in self._actors:
            actor.stop()
        for thread in self._threads:
            thread.join()

    def _run(self, number: int, actor: Actor) -> None:
        try:
            actor.run()
        except Exception as error:
            _log.debug("actor %d ended", number, exc_info=True)
            failed = ActorFailed(f"actor {number} failed: {error}")
            failed.__cause__ = error
            self.failed = self.failed or failed
