"""Processes of this program that others of it start."""

import contextlib
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence

from seed_rl.foreign import printable

_MAX_QUOTE = 500  # characters
_MAX_READ = 64 * 1024  # bytes read from the end of a process's output
# A failing command prints `seed_rl train: ...`; tracebacks of this package's errors end with `seed_rl.x.Error: ...`.
_SENTENCE = re.compile(r"seed_rl(?: \w+|[\w.]*): (?P<sentence>.+)")
_LOG_LINE = re.compile(r"\d\d:\d\d:\d\d [DIWEC] ")


def python(code: str, *arguments: str) -> list[str]:
    """The command line of a Python process that finds the same modules as this one.

    By itself Python looks into the working directory first, where a file may have the name of any module; -P says the
    same to the processes that this one starts.
    """
    return [sys.executable, "-P", "-c", f"import sys; sys.path[:] = {sys.path!r}; {code}", *arguments]


def seed_rl(*arguments: str) -> list[str]:
    """The command line of a `seed_rl` command that finds the same modules as this process."""
    return python("from seed_rl.__main__ import main; sys.exit(main())", *arguments)


def start_logged(command: Sequence[str], path: str, mode: str = "ab") -> subprocess.Popen[bytes]:
    """Start a command in a new session, which Ctrl-C doesn't reach, its output in a file, appended or (`wb`) alone.

    Its standard input is an empty pipe that closes when this process ends. Raises OSError if it can't be started.
    """
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, mode) as log:
        return subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
        )


def run_logged(command: Sequence[str], path: str, wait: Callable[[subprocess.Popen[bytes]], int]) -> tuple[int, str]:
    """Start a command like `start_logged`, let `wait` wait for its exit code, and return that and `how_it_ended`.

    The programs that it has started in its session, such as the engines of environments, are killed when it has ended.
    """
    begin = os.path.getsize(path) if os.path.exists(path) else 0
    with start_logged(command, path) as process:
        code = wait(process)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    return code, how_it_ended(code, path, begin)


def how_it_ended(code: int, path: str, begin: int = 0) -> str:
    """Describe in one line how a process ended: its error sentence or last line, otherwise its exit code or signal.

    The code is that of `subprocess`, the output in the file begins at byte `begin`.
    """
    with open(path, "rb") as file:
        file.seek(max(begin, os.path.getsize(path) - _MAX_READ))
        lines = [line.strip() for line in file.read().decode(errors="replace").splitlines() if line.strip()]
    sentences = [found["sentence"] for line in lines if (found := _SENTENCE.fullmatch(line))]
    last = [line for line in lines[-1:] if not _LOG_LINE.match(line)]
    quote = printable("".join(sentences[-1:] or last)[:_MAX_QUOTE])
    if code >= 0:
        return quote or f"exit code {code}"
    names = {number.value: number.name for number in signal.Signals}
    killed = f"killed by {names.get(-code, f'signal {-code}')}"
    return f"{killed}: {quote}" if quote else killed
