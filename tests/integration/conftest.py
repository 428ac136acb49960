"""Starts real `seed_rl` processes and makes sure that none outlives its test."""

import contextlib
import subprocess
import sys
import time
from types import SimpleNamespace

import psutil
import pytest

from seed_rl.reporting import metrics
from tests.support import zygote


class Runs:
    """`seed_rl` commands of one test."""

    def __init__(self, directory):
        self._directory = directory
        self._processes = []

    def start(self, *arguments, program=None, **options):
        """Starts a command, or another program; its output is in `.text()`. A learner is forked: see `zygote`."""
        output = self._directory / f"output-{len(self._processes)}"
        with open(output, "wb") as file:
            if program is None and arguments[0] in ("train", "learner", "replay"):
                process = zygote.start(arguments, file, **options)
            else:
                command = [*(program or (sys.executable, "-m", "seed_rl")), *arguments]
                process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=file, stderr=file, **options)
        self._processes.append(process)
        return SimpleNamespace(process=process, pid=process.pid, text=output.read_text, wait=process.wait)

    def run(self, *arguments, timeout=240, **options):
        """Runs a command to its end."""
        run = self.start(*arguments, **options)
        run.returncode = run.wait(timeout)
        return run

    def kill_all(self):
        """Ends what the test left running, and the children of that."""
        for process in self._processes:
            if process.poll() is None:
                children = psutil.Process(process.pid).children(recursive=True)
                process.kill()
                for child in children:
                    with contextlib.suppress(psutil.NoSuchProcess):
                        child.kill()
                process.wait()


@pytest.fixture
def runs(tmp_path):
    """A `Runs` whose processes end with the test."""
    started = Runs(tmp_path)
    yield started
    started.kill_all()


@pytest.fixture
def rows():
    """Reads `metrics.jsonl` of a log directory; no rows if it is not there yet."""

    def read(logdir):
        try:
            return metrics.read(logdir)
        except FileNotFoundError:
            return []

    return read


@pytest.fixture
def wait_for():
    """Polls until a condition holds, and returns what it gave; fails if it does not within two minutes."""

    def wait(condition, run=None, timeout=120):
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            found = condition()
            if found:
                return found
            if run is not None and run.process.poll() is not None:
                raise AssertionError(f"ended with {run.process.returncode}:\n{run.text()}")
            time.sleep(0.05)
        raise AssertionError(f"not within {timeout} s" + ("" if run is None else f":\n{run.text()}"))

    return wait


@pytest.fixture
def actors_of():
    """The actor processes that a `train` process has started."""

    def find(pid):
        children = psutil.Process(pid).children(recursive=True)
        return [child for child in children if child.is_running() and "actor" in child.cmdline()]

    return find


@pytest.fixture
def gone():
    """Whether processes have ended."""

    def check(processes):
        return not any(p.is_running() and p.status() != psutil.STATUS_ZOMBIE for p in processes)

    return check
