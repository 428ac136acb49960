"""Computes rows of metrics from events of the training loop, and the bottleneck of a run from a row."""

import collections
import contextlib
import dataclasses
import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import psutil

from seed_rl.reporting.sink import Sink
from seed_rl.system.files import Outage

_log = logging.getLogger(__name__)

_BUSY = 0.95


class RunState(NamedTuple):
    """Snapshot of a run."""

    counters: Mapping[str, float]
    """Totals including earlier starts: `env_frames`, `agent_steps`, `learner_updates`, `seconds`; metrics too."""
    gauges: Mapping[str, float]
    """Further metrics reported unchanged."""
    inference: Mapping[str, float]
    """Totals of this start: the fields of `InferenceStats`."""


@dataclasses.dataclass(eq=False)
class RunLog:
    """Writes one row of metrics per interval: means over its updates, rates, and shares of time."""

    state: Callable[[], RunState]
    sinks: Sequence[Sink]
    interval: float
    """Time between rows, seconds."""
    clock: Callable[[], float] = time.monotonic

    def __post_init__(self) -> None:
        # Reading the CPU utilisation opens a file, which fails if too many are open.
        self._no_load = Outage("CPU utilisation counters", "metrics lack time/cpu", _log, "read")
        with self._no_load.tolerating():
            psutil.cpu_percent()  # starts the first measurement
        self._late: dict[str, float] = collections.defaultdict(float)  # seconds of work before its row, by part
        self._begin(self.state())

    def _begin(self, state: RunState) -> None:
        self._last, self._began = state, self.clock()
        self._updates, self._waited = 0, 0.0
        self._sums: dict[str, float] = collections.defaultdict(float)

    @contextlib.contextmanager
    def waiting(self) -> Iterator[None]:
        """Measure the time that the learner waits for a batch."""
        started = self.clock()
        yield
        self._waited += self.clock() - started

    def add_update(self, metrics: Mapping[str, float]) -> None:
        """Add the metrics of one update."""
        self._updates += 1
        for name, value in metrics.items():
            self._sums[name] += value

    def row_if_due(self) -> dict[str, float] | None:
        """Write and return a row if the interval is over."""
        return self._write() if self.clock() - self._began >= self.interval else None

    def close(self) -> dict[str, float] | None:
        """Write and return a row for the last, partial interval if it has updates, then close the sinks."""
        row = self._write() if self._updates else None
        for sink in self.sinks:
            sink.close()
        return row

    def _share(self, name: str, seconds: float, elapsed: float) -> float:
        """Return a share of the interval; work is counted when it ends, and what is too much goes to the next row."""
        seconds += self._late[name]
        self._late[name] = max(0.0, seconds - elapsed)
        return min(seconds / elapsed, 1.0)

    def _write(self) -> dict[str, float]:
        now, last, elapsed = self.state(), self._last, self.clock() - self._began
        grown = {name: total - last.inference[name] for name, total in now.inference.items()}
        parts = ("waiting", "blocked", "acting")
        row = {
            **now.counters,
            **now.gauges,
            "acted_steps": now.inference["agent_steps"],
            "frames_per_second": (now.counters["env_frames"] - last.counters["env_frames"]) / elapsed,
            "updates_per_second": self._updates / elapsed,
            "time/learner_waiting": self._waited / elapsed,
            **{f"time/inference_{part}": self._share(part, grown[f"{part}_seconds"], elapsed) for part in parts},
        }
        with self._no_load.tolerating():
            row["time/cpu"] = psutil.cpu_percent() / 100
        cycles = grown["groups_waiting_seconds"] + grown["groups_stepping_seconds"]
        if cycles > 0:
            row["time/actors_waiting"] = grown["groups_waiting_seconds"] / cycles
        batches, steps = grown["batches"], grown["agent_steps"]
        if batches and steps:  # totals are not read atomically: either may still be 0
            row["inference_batch_size"] = steps / batches
            row["inference_updates_behind"] = grown["updates_behind"] / batches
            row["inference_padding"] = grown["padded_steps"] / steps
        row.update({name: total / self._updates for name, total in self._sums.items()})
        for sink in self.sinks:
            sink.write(row, time.time())
        self._begin(now)
        return row


def bottleneck(row: Mapping[str, float], loses_by_bfloat16: bool = False) -> str:
    """Name the part of a run that never waits and so limits its throughput, and a remedy, given a row.

    The learner is checked first, because acting continues while the queue has room, then inference, which serves all
    actors, then the actors. If all of them mostly wait, latency between them is the bottleneck.
    """
    if not row.get("environments"):
        return "actors: none connected"
    cores = ", all cores are busy" if row.get("time/cpu", 0.0) >= _BUSY else ""
    if row["time/learner_waiting"] < 1 - _BUSY or row["time/inference_blocked"] > 0.2:
        slow = "learner: bfloat16 is slow on this device; dtype = 'auto' chooses float32"
        return slow if loses_by_bfloat16 else f"learner: smaller network or faster device{cores}"
    if row["time/inference_acting"] > 0.8:
        return f"inference: larger batches or faster device{cores}"
    if row.get("time/actors_waiting", 0.0) < 0.5:
        return f"actors: add environments or processes{cores}"
    busy = "cores: all are busy with actors, inference and learner"
    return busy if cores else "latency: add groups of environments to each actor"
