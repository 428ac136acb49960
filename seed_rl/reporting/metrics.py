"""Averages over recent episodes, and `metrics.jsonl`, the file with a run's rows of metrics."""

import collections
import io
import json
import logging
import math
import os
from collections.abc import Iterator, Mapping
from typing import IO, Any

import numpy as np

from seed_rl.foreign import json_object, number, open_file
from seed_rl.reporting.sink import Sink
from seed_rl.reporting.text import quantity
from seed_rl.system.files import StrPath, complete_or_absent

_log = logging.getLogger(__name__)

FILE = "metrics.jsonl"
RECENT_EPISODES = 100
RECENT_EVAL_EPISODES = 30
EVALUATION = 10
"""Number of evaluation episodes from which on their mean may decide about the best checkpoint or the end of a run."""
_MAX_LINE = 1 << 20  # bytes


def settled_return(row: Mapping[str, float], metric: str) -> float:
    """Return a mean return, `episode_return` or `eval/episode_return`; minus infinity before it is meaningful.

    Means of training episodes count from the hundredth episode on, those of evaluation episodes from the tenth, because
    short episodes end first.
    """
    count, enough = ("episodes", RECENT_EPISODES) if metric == "episode_return" else ("eval/episodes", EVALUATION)
    return row.get(metric, -math.inf) if row.get(count, 0) >= enough else -math.inf


class EpisodeWindow:
    """The last `size` episodes."""

    def __init__(self, size: int):
        self._episodes: collections.deque[tuple[float, int]] = collections.deque(maxlen=size)
        self.count = 0
        """Total number of episodes added."""
        self.total_return = 0.0
        """Sum of the returns of all episodes added."""

    def add(self, returns: np.ndarray, lengths: np.ndarray) -> None:
        """Add n episodes: returns float [n] and lengths int [n] in agent steps."""
        self._episodes.extend(zip(returns.tolist(), lengths.tolist(), strict=True))
        self.count += len(returns)
        self.total_return += float(returns.sum())

    def means(self, newest: int = 1 << 31) -> dict[str, float]:
        """Return the means of `episode_return` and `episode_length` over the newest episodes in the window, by default
        all; empty before the first episode."""
        if not self._episodes:
            return {}
        means = np.mean(list(self._episodes)[-newest:], axis=0).tolist()
        return dict(zip(("episode_return", "episode_length"), means, strict=True))

    def get_state(self) -> dict[str, Any]:
        """Return the state as JSON values."""
        return {"episodes": list(self._episodes), "count": self.count, "total_return": self.total_return}

    def set_state(self, state: dict[str, Any]) -> None:
        """Restore a state returned by `get_state`."""
        self._episodes.extend((float(value), int(length)) for value, length in state["episodes"])
        self.count, self.total_return = int(state["count"]), float(state["total_return"])


class RecordFile:
    """A file to which records are appended atomically.

    On a full disk, a record may be written partially. This part is then removed, so that the next record follows the
    last complete one. Nothing is buffered.
    """

    def __init__(self, path: str):
        self._file = io.FileIO(path, "a")

    def append(self, record: bytes) -> None:
        """Append a record; after an OSError, nothing of it remains."""
        size = os.fstat(self._file.fileno()).st_size
        try:
            while record:
                record = record[self._file.write(record) :]
        except OSError:
            self._file.truncate(size)
            raise

    def close(self) -> None:
        """Close the file."""
        self._file.close()


class MetricsFile(RecordFile, Sink):
    """A sink that writes each row as a line of `metrics.jsonl`.

    A resumed run continues the file from its checkpoint, without later rows and damaged lines; a new run empties it.
    """

    def __init__(self, logdir: str, resumed: tuple[int, float] | None):
        """Open the file; see `reporting.sinks.sinks_of` for the arguments."""
        path = os.path.join(logdir, FILE)
        if resumed is not None and os.path.exists(path):
            _keep_until(path, *resumed)
        super().__init__(path)
        if resumed is None:
            self._file.truncate(0)

    def write(self, row: dict[str, float], wall_time: float) -> None:
        """Append a line."""
        self.append(f"{json.dumps(row)}\n".encode())


def read(logdir: StrPath) -> list[dict[str, float]]:
    """Read the rows of a run, skipping damaged lines and an incomplete last line, left by a killed run.

    Args:
      logdir: log directory of the run.

    Raises:
      FileNotFoundError: the run has no rows.
    """
    place = os.path.join(logdir, FILE)
    with open_file(place) as file:
        lines = [row for _, row in _lines(file)]
    rows = [row for row in lines if row is not None]
    if len(rows) < len(lines):
        _log.warning("%s: skipped %s", place, quantity(len(lines) - len(rows), "damaged line"))
    return rows


def _lines(file: IO[bytes]) -> Iterator[tuple[bytes, dict[str, float] | None]]:
    """Yield complete lines (overlong ones in parts) with the row parsed from each, or None if it is damaged."""
    while line := file.readline(_MAX_LINE):
        try:
            row: dict[str, float] | None = _row(line)
        except ValueError:
            row = None
        if line.endswith(b"\n") or len(line) == _MAX_LINE:
            yield line, row


def _row(line: bytes) -> dict[str, float]:
    """Parse a row: numbers by name, with finite `env_frames`; raise ValueError if it is damaged."""
    found = json_object(line)
    if not math.isfinite(number(found, "env_frames")):
        raise ValueError("env_frames isn't finite")
    return {name: number(found, name) for name in found}


def _keep_until(path: str, frames: int, seconds: float) -> None:
    """Remove rows after this point of the run, and damaged lines."""
    with open(path, "rb") as old, complete_or_absent(path) as new:
        for line, row in _lines(old):
            if row is not None and (row["env_frames"], row.get("seconds", 0.0)) <= (frames, seconds):
                new.write(line)
