"""Opens the destinations of a run's rows, and retries those that fail temporarily."""

import collections
import logging
import os
import time
from collections.abc import Callable

from seed_rl.experiment import Experiment
from seed_rl.reporting.event_file import PREFIX, EventFile
from seed_rl.reporting.metrics import FILE, MetricsFile
from seed_rl.reporting.sink import Sink
from seed_rl.reporting.wandb_run import WandbRun
from seed_rl.system.files import Outage, reason

_log = logging.getLogger(__name__)

_ROWS_KEPT = 10_000  # newest rows kept while a sink fails; about 20 MB


class RetryingSink(Sink):
    """A sink that forwards rows to another sink, and keeps them while that one fails.

    Thus a full disk, for example, stops neither training nor other sinks, and no row is lost once there is room again.
    """

    def __init__(self, name: str, open_sink: Callable[[], Sink]):
        """Messages call the other sink `name`; `open_sink` is called again later if it raises `OSError`."""
        self._name = name
        self._open = open_sink
        self._sink: Sink | None = None
        self._kept: collections.deque[Callable[[Sink], None]] = collections.deque(maxlen=_ROWS_KEPT)
        self._outage = Outage(name, "training continues, with retries", _log)
        self._catch_up()

    def write(self, row: dict[str, float], wall_time: float) -> None:
        """Forward a row; never raises."""
        self._kept.append(lambda sink: sink.write(row, wall_time))
        self._catch_up()

    def film(self, mp4: str, gif: str, env_frames: int, wall_time: float) -> None:
        paths = (mp4, gif)  # may have been removed by the time a full disk has room
        self._kept.append(lambda s: s.film(*paths, env_frames, wall_time) if all(map(os.path.exists, paths)) else None)
        self._catch_up()

    def _catch_up(self) -> None:
        with self._outage.tolerated():
            self._sink = self._sink or self._open()
            while self._kept:
                self._kept[0](self._sink)
                self._kept.popleft()

    def close(self) -> None:
        """Close the other sink; log how many rows are missing from it."""
        self._catch_up()
        if self._kept:
            _log.error("%s: the last %d entries could not be written", self._name, len(self._kept))
        try:
            if self._sink is not None:
                self._sink.close()
        except OSError as error:
            _log.error("%s could not be closed (%s)", self._name, reason(error))


def sinks_of(experiment: Experiment, logdir: str, resumed: tuple[int, float] | None) -> list[Sink]:
    """Open the sinks of a run.

    Args:
      experiment: experiment of the run.
      logdir: directory of the run; created if it does not exist.
      resumed: `env_frames` and `seconds` of the checkpoint from which the run continues; None for a new run.
    """
    os.makedirs(logdir, exist_ok=True)
    started = time.time()
    sinks: list[Sink] = [
        RetryingSink(FILE, lambda: MetricsFile(logdir, resumed)),
        RetryingSink(PREFIX, lambda: EventFile(experiment, logdir, resumed, started)),
    ]
    if experiment.logs.wandb_project:
        sinks.append(RetryingSink("Weights & Biases", lambda: WandbRun(experiment, logdir, resumed)))
    return sinks
