"""Actors on this machine, in processes or in threads of the learner's process."""

from __future__ import annotations

import dataclasses
import os
import re
import signal
import subprocess
from collections.abc import Callable, Sequence

from seed_rl.actor.loop import Actor
from seed_rl.foreign import printable
from seed_rl.runs.fleet import ActorFailed, Ended, SupervisedFleet
from seed_rl.system import children
from seed_rl.system.exit_codes import USAGE_ERROR
from seed_rl.transport.client import LearnerClient
from seed_rl.transport.credentials import ClientSecurity

_MAX_QUOTE = 500  # characters
_MAX_READ = 64 * 1024  # bytes at the end of a process's output
# A command that fails prints `seed_rl train: ...`; the traceback of an error of ours ends with `seed_rl.x.Error: ...`.
_SENTENCE = re.compile(r"seed_rl(?: \w+|[\w.]*): (?P<sentence>.+)")
_FROM_OUTSIDE = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP)  # the kernel sends the first, too
_LOG_LINE = re.compile(r"\d\d:\d\d:\d\d [DIWEC] ")


@dataclasses.dataclass(eq=False)
class LocalActors(SupervisedFleet):
    """Actors in processes of this machine.

    They read a pipe that only this process holds: they end by themselves when this process is gone, however it ended.
    """

    arguments: Sequence[str] = ()
    """Of `seed_rl actor`, without the address."""

    @property
    def pids(self) -> list[int]:
        """Of the processes that are running."""
        return [process.pid for process in list(self._handles.values()) if process.poll() is None]

    def _run(self, number: int, log: str) -> Ended:
        def wait(process: subprocess.Popen[bytes]) -> int:
            with self._reachable(number, process):
                return process.wait()

        command = children.seed_rl("actor", "--exit_with_parent", *self.arguments, f"--server_address={self._address}")
        code, how = run_logged(command, log, wait)
        if code == USAGE_ERROR:
            raise ActorFailed(f"actor {number} can't run: {how} (its log: {log})")
        # An actor that is asked to end exits with 128 plus the signal.
        return Ended(how, killed=any(code in (-number, 128 + number) for number in _FROM_OUTSIDE))

    def _end(self, number: int, handle: subprocess.Popen[bytes], kill: bool) -> None:
        if kill:
            handle.kill()
        else:
            handle.terminate()


class ActorThreads(SupervisedFleet):
    """Actors in threads of the learner's process; the first that fails ends the run."""

    def _run(self, number: int, log: str) -> Ended:
        actor = Actor(lambda: LearnerClient(self._address, ClientSecurity()))
        try:
            with self._reachable(number, actor):
                actor.run()
        except Exception as error:
            raise ActorFailed(f"actor {number} failed: {error}") from error
        return Ended("it was asked to")

    def _end(self, number: int, handle: Actor, kill: bool) -> None:
        handle.stop()


def run_logged(command: Sequence[str], path: str, wait: Callable[[subprocess.Popen[bytes]], int]) -> tuple[int, str]:
    """Runs a command in a session of its own, out of the reach of Ctrl-C, and appends its output to a file.

    Args:
      command: to run; its standard input is an empty pipe that ends with this process.
      path: of the file, made with its directory if need be.
      wait: waits for the process, and returns its exit code.

    Returns:
      The exit code, and how the process ended, in one line.

    Raises:
      OSError: it can't be started.
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
    quote = printable(next(iter(sentences[-1:] or last), "")[:_MAX_QUOTE])
    if code >= 0:
        return quote or f"exit code {code}"
    names = {number.value: number.name for number in signal.Signals}
    killed = f"killed by {names.get(-code, f'signal {-code}')}"
    return f"{killed}: {quote}" if quote else killed
