"""Metrics as gauges of Ray, such as `ray_seed_rl_episode_return` in Prometheus."""

import re
from collections.abc import Mapping

from ray.util.metrics import Gauge

_NO_LETTER = r"[^a-zA-Z0-9_]"


class Gauges:
    """Shows rows of metrics, with the log directory of their run as the label `run`."""

    def __init__(self, logdir: str):
        self._logdir = logdir
        self._gauges: dict[str, Gauge] = {}

    def __call__(self, row: Mapping[str, float]) -> None:
        for name, value in row.items():
            if name not in self._gauges:
                gauge = self._gauges[name] = Gauge(f"seed_rl_{re.sub(_NO_LETTER, '_', name)}", name, tag_keys=("run",))
                gauge.set_default_tags({"run": self._logdir})
            self._gauges[name].set(value)
