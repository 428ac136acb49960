"""Actors on this machine, as processes or as threads of the learner's process."""

from __future__ import annotations

import dataclasses
import os
import re
import signal
import subprocess
from collections.abc import Callable, Sequence

from seed_rl.actor.loop import Actor
from seed_rl.foreign import printable
from seed_rl.runs.fleet import ActorEnd, ActorFailed, SupervisedFleet
from seed_rl.system import children
from seed_rl.system.exit_codes import USAGE_ERROR
from seed_rl.system.files import explained
from seed_rl.transport.client import LearnerClient
from seed_rl.transport.credentials import ClientSecurity

_MAX_QUOTE = 500  # characters
_MAX_READ = 64 * 1024  # bytes read from the end of a process's output
# A failing command prints `seed_rl train: ...`; tracebacks of this package's errors end with `seed_rl.x.Error: ...`.
_SENTENCE = re.compile(r"seed_rl(?: \w+|[\w.]*): (?P<sentence>.+)")
_FROM_OUTSIDE = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP)  # SIGKILL also comes from the kernel
_LOG_LINE = re.compile(r"\d\d:\d\d:\d\d [DIWEC] ")


@dataclasses.dataclass(eq=False)
class LocalActors(SupervisedFleet):
    """Actors as processes on this machine.

    They read from a pipe that only this process keeps open, and so exit when this process ends for any reason.
    """

    arguments: Sequence[str] = ()
    """Arguments of `seed_rl actor` except the address."""

    @property
    def pids(self) -> list[int]:
        """Ids of the running processes."""
        return [process.pid for process in list(self._handles.values()) if process.poll() is None]

    def _run(self, number: int, log: str) -> ActorEnd | None:
        def wait(process: subprocess.Popen[bytes]) -> int:
            with self._reachable(number, process):
                return process.wait()

        arguments = [*self._arguments(number), f"--server_address={self._address}"]
        command = children.seed_rl("actor", "--exit_with_parent", *arguments)
        code, how = run_logged(command, log, wait)
        if code == USAGE_ERROR:
            raise ActorFailed(f"actor {number} can't run: {how} (log: {log})")
        # An actor that ends after a signal exits with 128 plus the signal's number.
        return ActorEnd(how, any(code in (-number, 128 + number) for number in _FROM_OUTSIDE)) if code else None

    def _arguments(self, number: int) -> Sequence[str]:
        return self.arguments

    def _end(self, number: int, handle: subprocess.Popen[bytes], kill: bool) -> None:
        if kill:
            handle.kill()
        else:
            handle.terminate()


class ActorThreads(SupervisedFleet):
    """Actors as threads of the learner's process; the first failure ends the run."""

    def _run(self, number: int, log: str) -> None:
        actor = Actor(lambda: LearnerClient(self._address, ClientSecurity()))
        with explained(ActorFailed, f"actor {number} failed", Exception), self._reachable(number, actor):
            actor.run()

    def _end(self, number: int, handle: Actor, kill: bool) -> None:
        handle.stop()


def run_logged(command: Sequence[str], path: str, wait: Callable[[subprocess.Popen[bytes]], int]) -> tuple[int, str]:
    """Run a command in a new session, which Ctrl-C doesn't reach, and append its output to a file.

    Args:
      command: command to run; its standard input is an empty pipe that closes when this process ends.
      path: path of the output file, created with its directory if missing.
      wait: waits for the process and returns its exit code.

    Returns:
      The exit code, and a one-line description of how the process ended.

    Raises:
      OSError: the command can't be started.
    """
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "ab") as log:
        begin = log.tell()
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
        )
    with process:
        code = wait(process)
    return code, how_it_ended(code, path, begin)


def how_it_ended(code: int, path: str, begin: int = 0) -> str:
    """Describe in one line how a process ended: its error sentence or last line, otherwise its exit code or signal.

    Args:
      code: exit code as given by `subprocess`; a negative one is the signal that killed the process.
      path: file with its output.
      begin: offset of the output in the file, bytes.
    """
    with open(path, "rb") as file:
        file.seek(max(begin, os.path.getsize(path) - _MAX_READ))
        lines = [line.strip() for line in file.read().decode(errors="replace").splitlines() if line.strip()]
    sentences = [found["sentence"] for line in lines if (found := _SENTENCE.fullmatch(line))]
    last = [line for line in lines[-1:] if not _LOG_LINE.match(line)]
    quote = printable(next(iter(sentences[-1:] or last), "")[:_MAX_QUOTE])
    if code >= 0:
        return quote or f"exit code {code}"
    names = {number.value: number.name for number in signal.Signals}
    killed = f"killed by {names.get(-code, f'signal {-code}')}"
    return f"{killed}: {quote}" if quote else killed
