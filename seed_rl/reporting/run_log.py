"""Turns what happens in the training loop into rows of metrics."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import time
from collections.abc import Callable, Iterator

import psutil

from seed_rl.inference.thread import InferenceStats
from seed_rl.reporting.sinks import Sinks


@dataclasses.dataclass(frozen=True)
class RunState:
    """The state of a run at one moment."""

    counters: dict[str, float]
    """Grow over the whole run, resumed or not: `env_frames`, `agent_steps`, `learner_updates`, `seconds`."""
    gauges: dict[str, float]
    """Reported as they are."""
    inference: InferenceStats


class RunLog:
    """Averages the updates of an interval and reports them together with rates and shares of time.

    Shares say where the time of the interval went: `time/learner_waiting` (for a batch), `time/inference_waiting` (for
    observations), `time/inference_blocked` (for room in the queue: back-pressure) and `time/inference_acting`, each of
    its own thread's time; `time/actors_waiting` (for actions), of the time of all environment groups; and `time/cpu`,
    the share of the learner's machine's cores that was busy.
    """

    def __init__(self, state: Callable[[], RunState], sinks: Sinks, interval: float):
        """
        Args:
          state: gives the state of the run.
          sinks: where rows go.
          interval: seconds between rows.
        """
        self._state = state
        self._sinks = sinks
        self._interval = interval
        self._last = state()
        psutil.cpu_percent()  # begins to measure
        self._begin()

    def _begin(self) -> None:
        self._began = time.monotonic()
        self._sums: collections.defaultdict[str, float] = collections.defaultdict(float)
        self._updates = 0
        self._queue_fill = 0.0
        self._waited = 0.0

    @contextlib.contextmanager
    def waiting(self) -> Iterator[None]:
        """Measures the time that the loop waits for a batch, its own or that of another host."""
        started = time.monotonic()
        yield
        self._waited += time.monotonic() - started

    def add_update(self, metrics: dict[str, float], queue_fill: float) -> None:
        """Takes the metrics of one update, and the queued unrolls after it over the queue's capacity."""
        self._updates += 1
        self._queue_fill += queue_fill
        for name, value in metrics.items():
            self._sums[name] += value

    def row_if_due(self) -> dict[str, float] | None:
        """Writes and returns a row when the interval is over."""
        if time.monotonic() - self._began < self._interval:
            return None
        return self._write()

    def close(self) -> dict[str, float] | None:
        """Writes and returns what the last, shorter interval brought, if anything, and closes the sinks."""
        row = self._write() if self._updates else None
        self._sinks.close()
        return row

    def _write(self) -> dict[str, float]:
        now, last = self._state(), self._last
        elapsed = time.monotonic() - self._began
        acted, before = now.inference, last.inference
        batches = acted.batches - before.batches
        row = {
            **now.counters,
            **now.gauges,
            "frames_per_second": (now.counters["env_frames"] - last.counters["env_frames"]) / elapsed,
            "updates_per_second": self._updates / elapsed,
            "time/learner_waiting": self._waited / elapsed,
            "time/inference_waiting": (acted.waiting_seconds - before.waiting_seconds) / elapsed,
            "time/inference_blocked": (acted.blocked_seconds - before.blocked_seconds) / elapsed,
            "time/inference_acting": (acted.acting_seconds - before.acting_seconds) / elapsed,
            "time/cpu": psutil.cpu_percent() / 100,
        }
        waiting = acted.groups_waiting_seconds - before.groups_waiting_seconds
        stepping = acted.groups_stepping_seconds - before.groups_stepping_seconds
        if waiting + stepping > 0:
            row["time/actors_waiting"] = waiting / (waiting + stepping)
        steps = acted.agent_steps - before.agent_steps
        if batches and steps:  # inference goes on while it is read: one may be ahead of the other
            row["inference_batch_size"] = steps / batches
            row["inference_updates_behind"] = (acted.updates_behind - before.updates_behind) / batches
            row["inference_padding"] = (acted.padded_steps - before.padded_steps) / steps
        if self._updates:
            row["queue_fill"] = self._queue_fill / self._updates
            row.update({name: total / self._updates for name, total in self._sums.items()})
        self._sinks.write(row, time.time())
        self._last = now
        self._begin()
        return row
