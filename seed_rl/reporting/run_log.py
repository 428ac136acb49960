"""Computes rows of metrics from events of the training loop, and the bottleneck of a run from a row."""

import collections
import contextlib
import dataclasses
import logging
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import psutil

from seed_rl.reporting.metrics import Sink
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


class _Span:
    """What a row of metrics is made of: what happened since the span began, and how much totals have grown."""

    def __init__(self, state: RunState, now: float):
        self._late: dict[str, float] = collections.defaultdict(float)  # seconds of work before its span, by part
        self.begin(state, now)

    def begin(self, state: RunState, now: float) -> None:
        """Begin the span of the next row."""
        self._last, self.began = state, now
        self.updates, self.waited, self.busy = 0, 0.0, 0.0
        self.sums: dict[str, float] = collections.defaultdict(float)

    def _share(self, name: str, seconds: float, elapsed: float) -> float:
        """Return a share of the span; work is counted when it ends, and what is too much goes to the next span."""
        seconds += self._late[name]
        self._late[name] = max(0.0, seconds - elapsed)
        return min(seconds / elapsed, 1.0)

    def end(self, state: RunState, now: float) -> dict[str, float]:
        """Return the row of the span that ends now, and begin the next one."""
        last, elapsed = self._last, now - self.began
        grown = {name: total - last.inference[name] for name, total in state.inference.items()}
        parts = ("waiting", "blocked", "acting")
        row = {
            **state.counters,
            **state.gauges,
            "acted_steps": state.inference["agent_steps"],
            "frames_per_second": (state.counters["env_frames"] - last.counters["env_frames"]) / elapsed,
            "updates_per_second": self.updates / elapsed,
            "time/learner_waiting": self.waited / elapsed,
            **{f"time/inference_{part}": self._share(part, grown[f"{part}_seconds"], elapsed) for part in parts},
        }
        if not math.isnan(self.busy):
            row["time/cpu"] = self.busy / elapsed
        cycles = grown["groups_waiting_seconds"] + grown["groups_stepping_seconds"]
        if cycles > 0:
            row["time/actors_waiting"] = grown["groups_waiting_seconds"] / cycles
        batches, steps = grown["batches"], grown["agent_steps"]
        if batches and steps:  # totals are not read atomically: either may still be 0
            row["inference_batch_size"] = steps / batches
            row["inference_updates_behind"] = grown["updates_behind"] / batches
            row["inference_padding"] = grown["padded_steps"] / steps
        row.update({name: total / self.updates for name, total in self.sums.items()})
        self.begin(state, now)
        return row


@dataclasses.dataclass(eq=False)
class RunLog:
    """Writes rows of metrics: means over updates, rates, and shares of time, since the row before.

    A row is due after the interval or the next multiple of `frames_per_row`, so that curves are fine on any machine.
    People are shown summaries, the rows of whole intervals, because rates vary from one short row to the next.
    """

    state: Callable[[], RunState]
    sinks: Sequence[Sink]
    interval: float
    """Time between summaries, seconds, and the longest between rows."""
    frames_per_row: float = math.inf
    clock: Callable[[], float] = time.monotonic

    def __post_init__(self) -> None:
        # Reading the CPU utilisation opens a file, which fails if too many are open.
        self._no_load = Outage("CPU utilisation counters", "metrics lack time/cpu", _log, "read")
        with self._no_load.tolerating():
            psutil.cpu_percent()  # starts the first measurement
        state, now = self.state(), self.clock()
        self._spans = self._row, self._summary = _Span(state, now), _Span(state, now)
        self._multiple = state.counters["env_frames"] // self.frames_per_row

    @contextlib.contextmanager
    def waiting(self) -> Iterator[None]:
        """Measure the time that the learner waits for a batch."""
        started = self.clock()
        yield
        for span in self._spans:
            span.waited += self.clock() - started

    def add_update(self, metrics: Mapping[str, float]) -> None:
        """Add the metrics of one update."""
        for span in self._spans:
            span.updates += 1
            for name, value in metrics.items():
                span.sums[name] += value

    def summary_if_due(self, env_frames: float) -> dict[str, float] | None:
        """Write a row if it is due after these frames; return a summary if the interval is over."""
        multiple, before = env_frames // self.frames_per_row, self._multiple
        self._multiple = max(multiple, before)
        if self.clock() - self._summary.began >= self.interval:
            return self._sum_up(with_row=True)
        if multiple > before:
            self._write(self.state(), self.clock())
        return None

    def close(self) -> dict[str, float] | None:
        """Write a last row and return a last summary if there were updates since the one before; close the sinks."""
        summary = self._sum_up(with_row=self._row.updates > 0) if self._summary.updates else None
        for sink in self.sinks:
            sink.close()
        return summary

    def _sum_up(self, with_row: bool) -> dict[str, float]:
        state, now = self.state(), self.clock()
        if with_row:
            self._write(state, now)
        return self._summary.end(state, now)

    def _write(self, state: RunState, now: float) -> None:
        busy = math.nan
        with self._no_load.tolerating():
            busy = psutil.cpu_percent() / 100 * (now - self._row.began)
        for span in self._spans:
            span.busy += busy
        row = self._row.end(state, now)
        for sink in self.sinks:
            sink.write(row, time.time())


def bottleneck(row: Mapping[str, float], loses_by_bfloat16: bool = False) -> str:
    """Name the part of a run that never waits and so limits its throughput, and a remedy, given a row.

    The learner is checked first, because acting continues while the queue has room, then inference, which serves all
    actors, then the actors. If all of them mostly wait, latency between them is the bottleneck.
    """
    if not row.get("environments"):
        return "actors: none connected"
    if hanging := row.get("environments_hanging"):
        return f"actors: {hanging:.0f} environments wait for one that hangs: see actors' logs"
    cores = ", all cores are busy" if row.get("time/cpu", 0.0) >= _BUSY else ""
    if row["time/learner_waiting"] < 1 - _BUSY or row["time/inference_blocked"] > 0.2:
        slow = "learner: bfloat16 is slow on this device; dtype = 'auto' chooses float32"
        return slow if loses_by_bfloat16 else f"learner: smaller network or faster device{cores}"
    if row["time/inference_acting"] > 0.8:
        return f"inference: larger batches or faster device{cores}"
    if "inference_batch_size" not in row:
        return f"actors: {row['actors']:.0f} connected, none answers: slow steps or resets, or they hang"
    if row.get("time/actors_waiting", 0.0) < 0.5:
        return f"actors: add environments or processes{cores}"
    busy = "cores: all are busy with actors, inference and learner"
    return busy if cores else "latency: add groups of environments to each actor"
