"""Opens the destinations of a run's rows; a run continues while one fails."""

import logging
import os
import time
from collections.abc import Callable

from seed_rl.experiment import Experiment
from seed_rl.reporting.event_file import PREFIX, EventFile
from seed_rl.reporting.metrics import FILE, MetricsFile, Sink
from seed_rl.reporting.wandb_run import WandbRun
from seed_rl.system.files import Outage

_log = logging.getLogger(__name__)


class RetryingSink(Sink):
    """A sink that forwards to another one, and loses rows while that one fails, as on a full disk."""

    def __init__(self, name: str, open_sink: Callable[[], Sink]):
        """Messages call the other sink `name`; `open_sink` is called again for the next row if it raises `OSError`."""
        self._open = open_sink
        self._sink: Sink | None = None
        self._outage = Outage(name, "training continues, without these rows", _log)
        self._forward(lambda sink: None)

    def write(self, row: dict[str, float], wall_time: float) -> None:
        """Forward a row; never raises."""
        self._forward(lambda sink: sink.write(row, wall_time))

    def film(self, mp4: str, gif: str, env_frames: int, wall_time: float) -> None:
        self._forward(lambda sink: sink.film(mp4, gif, env_frames, wall_time))

    def close(self) -> None:
        """Close the other sink, if it is open."""
        if self._sink is not None:
            self._forward(lambda sink: sink.close())

    def _forward(self, call: Callable[[Sink], None]) -> None:
        with self._outage.tolerating():
            self._sink = self._sink or self._open()
            call(self._sink)


def sinks_of(experiment: Experiment, logdir: str, resumed: tuple[int, float] | None) -> list[Sink]:
    """Open a run's sinks; `resumed` are `env_frames` and `seconds` of the checkpoint that it continues, if any."""
    os.makedirs(logdir, exist_ok=True)
    started = time.time()
    sinks: list[Sink] = [
        RetryingSink(FILE, lambda: MetricsFile(logdir, resumed)),
        RetryingSink(PREFIX, lambda: EventFile(experiment, logdir, resumed, started)),
    ]
    if experiment.logs.wandb_project:
        sinks.append(RetryingSink("Weights & Biases", lambda: WandbRun(experiment, logdir, resumed)))
    return sinks
