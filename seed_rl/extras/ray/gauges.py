"""Metrics as gauges of Ray, such as `ray_seed_rl_episode_return` in Prometheus."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ray.util.metrics import Gauge

from seed_rl.reporting.sink import Sink

if TYPE_CHECKING:
    from seed_rl.runs.assembly import Assembly, Parts

_NO_LETTER = r"[^a-zA-Z0-9_]"


class Gauges(Sink):
    """A sink of rows of metrics, with the log directory of their run as the label `run`."""

    def __init__(self, logdir: str):
        self._logdir = logdir
        self._gauges: dict[str, Gauge] = {}

    def write(self, row: dict[str, float], wall_time: float) -> None:
        for name, value in row.items():
            if name not in self._gauges:
                gauge = self._gauges[name] = Gauge(f"seed_rl_{re.sub(_NO_LETTER, '_', name)}", name, tag_keys=("run",))
                gauge.set_default_tags({"run": self._logdir})
            self._gauges[name].set(value)

    def close(self) -> None:
        """See `Sink.close`: Ray shows the last values until its process ends."""


def with_gauges(assembly: Assembly, logdir: str) -> Assembly:
    """Return an assembly whose metrics are gauges, too, with the label `logdir`."""

    def sinks(parts: Parts, resumed: tuple[int, float] | None) -> list[Sink]:
        return [Gauges(logdir), *assembly.sinks(parts, resumed)]

    return assembly._replace(sinks=sinks)
