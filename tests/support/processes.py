"""Fixtures that start real `seed_rl` processes, of which none outlives its test, and wait for what they do."""

import contextlib
import pathlib
import subprocess
import sys
import time
from types import SimpleNamespace

import psutil
import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from seed_rl.reporting import metrics
from seed_rl.reporting.catalogue import tag
from tests.support.deadlines import within

DOCS = pathlib.Path(__file__).resolve().parents[2] / "docs"


class Runs:
    """`seed_rl` commands of one test."""

    def __init__(self, directory):
        self._directory = directory
        self._processes = []

    def start(self, *arguments, program=None, **options):
        """Starts a command, or another program; its output is in `.text()`."""
        output = self._directory / f"output-{len(self._processes)}"
        with open(output, "wb") as file:
            command = [*(program or (sys.executable, "-m", "seed_rl")), *arguments]
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=file, stderr=file, **options)
        self._processes.append(process)

        def wait(timeout=120):
            """The exit code. A run that was asked to end may have to compile its first update before it can."""
            try:
                return process.wait(within(timeout))
            except subprocess.TimeoutExpired:
                raise AssertionError(f"still running after {within(timeout):.0f} s:\n{output.read_text()}") from None

        return SimpleNamespace(process=process, pid=process.pid, text=output.read_text, wait=wait)

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


def run_module(name, *arguments):
    """Runs a module in a new process, which must end with exit code 0."""
    command = [sys.executable, "-m", name, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=within(240))
    assert done.returncode == 0, (done.stdout + done.stderr)[-2000:]


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
def documented(rows):
    """Checks that all metrics of a run are in TensorBoard and on the pages, and returns their names."""

    def check(logdir):
        updates = {row["env_frames"]: row["learner_updates"] for row in rows(logdir)}
        names = {name for row in rows(logdir) for name in row}
        page = "".join(path.read_text(encoding="utf-8") for path in (DOCS / "metrics.md", *DOCS.glob("agents/*.md")))
        assert [name for name in sorted(names) if f"| `{name}` |" not in page] == []
        events = EventAccumulator(logdir).Reload()
        assert set(events.Tags()["scalars"]) == {tag(name) for name in names}
        points = [(event.step, event.value) for event in events.Scalars(tag("learner_updates"))]
        assert points == sorted(points), "a resumed run may repeat the last frame"
        assert dict(points) == updates
        return names

    return check


@pytest.fixture
def wait_for():
    """Polls until a condition holds, and returns what it gave; fails if it does not within two minutes."""

    def wait(condition, run=None, timeout=120):
        deadline = time.monotonic() + within(timeout)
        while time.monotonic() < deadline:
            found = condition()
            if found:
                return found
            if run is not None and run.process.poll() is not None:
                raise AssertionError(f"ended with {run.process.returncode}:\n{run.text()}")
            time.sleep(0.05)
        raise AssertionError(f"not within {within(timeout):.0f} s" + ("" if run is None else f":\n{run.text()}"))

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
