"""The queue of runs: `seed_rl train` processes, each in a log directory from which it continues."""

import contextlib
import json
import os
import pathlib
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from seed_rl.reporting import metrics
from seed_rl.reporting.text import duration
from seed_rl.system import children
from seed_rl.system.files import locking, reason

_FINISHED = "finished.json"
"""File with the arguments of a finished run. With different arguments, such as more frames, the run continues."""
_POLL_SECONDS = 0.2
_STOP_SECONDS = 60.0


class Trial(NamedTuple):
    """The settings that distinguish a run."""

    name: str  # name of its log directory
    settings: dict[str, str]  # values of the gin parameters in which runs differ

    @property
    def bindings(self) -> list[str]:
        return [f"{name} = {value}" for name, value in self.settings.items()]


class Run:
    """A run in a queue. Derived classes say when it is over and what to do before it begins and after it has ended."""

    def __init__(self, trial: Trial, arguments: Sequence[str], directory: str):
        """Describe the run of a trial, with further arguments of `seed_rl train` and the log directory's parent."""
        self.trial = trial
        self.logdir = os.path.join(directory, trial.name)
        self.arguments = [*arguments, *(f"--gin_param={binding}" for binding in trial.bindings)]
        self.title = trial.name  # names the run in messages
        self.failure: str | None = None  # why the last process failed, if it did
        self._read: tuple[int, list[dict[str, float]]] = 0, []

    def rows(self) -> list[dict[str, float]]:
        """Return the rows of metrics so far; the file is read again only if its size has changed."""
        path = os.path.join(self.logdir, metrics.FILE)
        size = os.path.getsize(path) if os.path.isfile(path) else 0
        if size != self._read[0]:
            self._read = size, metrics.read(self.logdir)
        return self._read[1]

    def is_finished(self) -> bool:
        """Return whether the run has been trained to its end with these arguments."""
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            return pathlib.Path(self.logdir, _FINISHED).read_bytes() == json.dumps(self.arguments).encode()
        return False

    def commands(self) -> list[list[str]]:
        """Return the `seed_rl` commands of the run; each begins once the one before it has succeeded."""
        return [["train", "--exit_with_parent", f"--logdir={self.logdir}", *self.arguments]]

    def begin(self) -> None:
        """Prepare for a start of the process; called before each."""

    def is_over(self) -> bool:
        """Return whether the run should end before its last frame; polled while the process runs."""
        return False

    def end(self, say: Callable[[str], None]) -> None:
        """Record the run, which has ended for any reason but `stopped`; for `say` see `train`."""

    def train(self, stopped: Callable[[], bool], say: Callable[[str], None]) -> int:
        """Train from the checkpoint, if any, to the end; return the last exit code, 0 if the run was over earlier."""
        code, ended = 0, ""
        started, ends = time.monotonic(), lambda: stopped() or self.is_over()
        try:
            self.begin()
            say(f"started: {self.title}")
            self._await_orphan(ends)
            output = os.path.join(self.logdir, "output.log")
            for command in self.commands():
                words = children.seed_rl(*command)
                code, ended = children.run_logged(words, output, lambda process: _wait(process, ends))
                if ends():
                    return 0 if self.is_over() else code
                if code:
                    break
            else:
                pathlib.Path(self.logdir, _FINISHED).write_text(json.dumps(self.arguments))
        except OSError as error:
            code, ended = 1, f"{error.filename or self.logdir} can't be used: {reason(error)}"
        if code:
            self.failure = ended
            say(f"failed: {self.title}: {ended}")
        else:
            returns = [row["episode_return"] for row in self.rows() if "episode_return" in row]
            returned = f", return {returns[-1]:.2f}" if returns else ""
            say(f"finished: {self.title} after {duration(time.monotonic() - started)}{returned}")
        return code

    def _await_orphan(self, ends: Callable[[], bool]) -> None:
        """Wait for a process left behind by a killed queue to write its last checkpoint."""
        lock, deadline = os.path.join(self.logdir, "lock"), time.monotonic() + _STOP_SECONDS
        while os.path.exists(lock) and not ends() and time.monotonic() < deadline:
            with contextlib.suppress(OSError), locking(lock):
                return
            time.sleep(_POLL_SECONDS)


def _wait(process: subprocess.Popen[bytes], ends: Callable[[], bool]) -> int:
    """Wait for a process, interrupting it once `ends` returns true; return its exit code."""
    while not ends():
        with contextlib.suppress(subprocess.TimeoutExpired):
            return process.wait(_POLL_SECONDS)
    process.send_signal(signal.SIGINT)
    try:
        return process.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()


def train_all(runs: Iterable[Run], stopped: Callable[[], bool], say: Callable[[str], None], parallel: int = 1) -> int:
    """Train runs in order, some of them at a time; return the exit code of one that failed, otherwise 0.

    The next run is asked for when one has ended, so it may depend on those before. Once `stopped`, which is polled from
    several threads, returns true, runs save a checkpoint and end. `say` gets a line when a run begins and ends.
    """
    waiting, turn, codes = iter(runs), threading.Lock(), list[int]()

    def work() -> None:
        while not stopped():
            with turn:
                run = next(waiting, None)
            if run is None:
                return
            codes.append(run.train(stopped, say))
            if not stopped() or run.is_over():
                run.end(say)

    with ThreadPoolExecutor(parallel) as pool:
        for worker in [pool.submit(work) for _ in range(parallel)]:
            worker.result()
    return next(filter(None, codes), 0)
