"""The whole product in processes of its own, `seed_rl train` or `seed_rl learner`, watched from outside."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import psutil

from benchmarks import usage
from benchmarks.children import Child, ChildFailed
from benchmarks.failures import MeasurementFailed, last_words
from benchmarks.usage import ProcessUse
from seed_rl.reporting import metrics

_STOP_SECONDS = 40.0
_POLL_SECONDS = 0.1
ENDLESS = "--total_frames=1000000000000"


class State(NamedTuple):
    """What there is to see of a running product."""

    rows: list[dict[str, float]]
    """Its metrics so far."""
    learner: ProcessUse
    actors: ProcessUse
    """All of them together."""


@contextmanager
def running(command: str, arguments: Sequence[str], keep: str | None = None) -> Iterator[Callable[[int], State | None]]:
    """Runs the product until left; gives what takes its state, or None without
    more rows of metrics than the number it is given. For `children.Child`.

    Args:
      command: `train` or `learner`.
      arguments: of it, without the log directory.
      keep: a directory that becomes its log directory; by default one that goes away.
    """
    with contextlib.ExitStack() as cleanup:
        logdir = keep or cleanup.enter_context(tempfile.TemporaryDirectory(prefix="seed_rl-"))
        os.makedirs(logdir, exist_ok=True)
        printed = os.path.join(logdir, "output")
        with open(printed, "wb") as output:
            process = subprocess.Popen(
                [sys.executable, "-m", "seed_rl", command, f"--logdir={logdir}", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )
        tree = psutil.Process(process.pid)

        def state(rows_seen: int) -> State | None:
            if process.poll() is not None:
                with open(printed, encoding="utf-8", errors="replace") as output:
                    raise MeasurementFailed(f"exit code {process.returncode}: {last_words(output.read())}")
            rows = metrics.read(logdir) if os.path.exists(os.path.join(logdir, metrics.FILE)) else []
            if len(rows) <= rows_seen:
                return None
            return State(rows, usage.process_use(tree), usage.children_use(tree))

        try:
            yield state
        finally:
            _stop(process)


def _stop(process: subprocess.Popen[bytes]) -> None:
    """Ends the learner and its actors: asks, and then kills."""
    below = psutil.Process(process.pid).children(recursive=True) if process.poll() is None else []
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    _, alive = psutil.wait_procs(below, timeout=5)
    for actor in alive:
        actor.kill()


class Product:
    """A running product, as the benchmark sees it."""

    def __init__(self, child: Child):
        self._child = child

    def state(self) -> State:
        """Now.

        Raises:
          ChildFailed: the product has ended; with its last words.
        """
        return self._child.ask(-1, 60)

    def wait_until(self, reached: Callable[[list[dict[str, float]]], bool], timeout: float, what: str) -> State:
        """The state as soon as its metrics say so, seen anew with each row of them.

        Args:
          reached: takes the rows so far, at least one.
          timeout: seconds.
          what: is waited for, in the words of an error.

        Raises:
          ChildFailed: it ended, or took too long.
        """
        deadline, seen = time.monotonic() + timeout, 0
        while time.monotonic() < deadline:
            state = self._child.ask(seen, 60)
            if state is not None:
                seen = len(state.rows)
                if reached(state.rows):
                    return state
            time.sleep(_POLL_SECONDS)
        raise ChildFailed(f"{what} did not come within {timeout:.0f} s")


@contextmanager
def product(
    command: str, arguments: Sequence[str], metrics_interval: float = 1.0, logdir: str | None = None
) -> Iterator[Product]:
    """The product with a row of metrics every so many seconds; ended when left.

    Args:
      command: `train` or `learner`.
      arguments: of it, without the log directory.
      metrics_interval: seconds.
      logdir: is kept; by default one that goes away.
    """
    interval = f"--gin_param=Logs.metrics_interval_s={metrics_interval}"
    with Child(f"seed_rl {command}", running, command, [*arguments, interval, ENDLESS], logdir) as child:
        child.wait_until_ready(60)
        yield Product(child)


def has_settled(rows: Sequence[dict[str, float]], environments: int, settle: float) -> bool:
    """Whether a run is in its steady state.

    It is `settle` seconds after the first update with all environments there and the first unroll of each begun: until
    then some of their steps are not recorded.
    """
    steady = 0.0  # since when, in the run's seconds
    for previous, row in zip([{}, *rows], rows, strict=False):
        ready = (
            row["learner_updates"] > 0
            and row.get("environments", 0) >= environments
            and row["unrecorded_steps"] == previous.get("unrecorded_steps", -1)
        )
        steady = (steady or previous.get("seconds", 0.0)) if ready else 0.0
    return steady > 0 and rows[-1]["seconds"] - steady >= settle
