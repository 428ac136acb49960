"""Averages over recent episodes, destinations of rows of metrics, and the file with a run's rows, `metrics.jsonl`."""

import collections
import contextlib
import io
import json
import logging
import math
import os
from collections.abc import Iterator, Mapping
from typing import IO, Any, Protocol

import numpy as np

from seed_rl.foreign import json_object, number, open_file, read_again_if_stale
from seed_rl.reporting.text import quantity
from seed_rl.system.files import StrPath, complete_or_absent

_log = logging.getLogger(__name__)

FILE = "metrics.jsonl"
RECENT_EPISODES = 100
RECENT_EVAL_EPISODES = 30
EVALUATION = 10
"""Evaluation episodes from which on their mean may decide about the best checkpoint or the end of a run."""
EARLY = 2
"""First episodes of each environment after which means count: the shortest of all end first."""
_MAX_LINE = 1 << 20  # bytes


def settled_return(row: Mapping[str, float], metric: str, num_envs: float) -> float:
    """Return a mean return, `episode_return` or `eval/episode_return`; minus infinity before it is meaningful.

    It is from the hundredth training and the tenth evaluation episode on, not counting two for each of its
    environments: short episodes end first.
    """
    count, enough = ("episodes", RECENT_EPISODES) if metric == "episode_return" else ("eval/episodes", EVALUATION)
    return row.get(metric, -math.inf) if row.get(count, 0) >= enough + EARLY * num_envs else -math.inf


class EpisodeWindow:
    """The last `size` episodes; `count` and `total_return` are of all that were added."""

    def __init__(self, size: int):
        self._episodes: collections.deque[tuple[float, int]] = collections.deque(maxlen=size)
        self.count, self.total_return = 0, 0.0

    def add(self, returns: np.ndarray, lengths: np.ndarray) -> None:
        """Add n episodes: returns float [n] and lengths int [n] in agent steps."""
        self._episodes.extend(zip(returns.tolist(), lengths.tolist(), strict=True))
        self.count += len(returns)
        self.total_return += float(returns.sum())

    def means(self, newest: int = 1 << 31) -> dict[str, float]:
        """Return `episode_return` and `episode_length`, means over the window or its newest; {} if it is empty."""
        means = np.mean(list(self._episodes)[-newest:], axis=0).tolist() if self._episodes else ()
        return dict(zip(("episode_return", "episode_length"), means, strict=False))

    def get_state(self) -> dict[str, Any]:
        """Return the state as JSON values."""
        return {"episodes": list(self._episodes), "count": self.count, "total_return": self.total_return}

    def set_state(self, state: dict[str, Any]) -> None:
        """Restore a state returned by `get_state`."""
        self._episodes.extend((float(value), int(length)) for value, length in state["episodes"])
        self.count, self.total_return = int(state["count"]), float(state["total_return"])


class Sink(Protocol):
    """A destination of rows and films. Times are seconds since the epoch. What raises OSError has taken nothing."""

    def write(self, row: dict[str, float], wall_time: float) -> None:
        """Take a row: scalars by their names in `metrics.jsonl`, including `env_frames`, the horizontal axis."""

    def film(self, mp4: str, gif: str, env_frames: int, wall_time: float) -> None:
        """Take a film of the policy, by default without using it: paths of both formats, and approximate frames."""
        return None

    def close(self) -> None:
        """Close the destination; called once, after the last row."""


class RecordFile:
    """A file to which records are appended whole and unbuffered: what a full disk takes of one is removed again."""

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
    """Rows as lines of `metrics.jsonl`: a new run empties it, a resumed one continues without damaged or later ones."""

    def __init__(self, logdir: str, resumed: tuple[int, float] | None):
        """Open the file; see `reporting.sinks.sinks_of` for the arguments."""
        path = os.path.join(logdir, FILE)
        if resumed is not None and os.path.exists(path):
            with open(path, "rb") as old, complete_or_absent(path) as new:
                for line, row in _lines(old):
                    if row is not None and (row["env_frames"], row.get("seconds", 0.0)) <= resumed:
                        new.write(line)
        super().__init__(path)
        if resumed is None:
            self._file.truncate(0)

    def write(self, row: dict[str, float], wall_time: float) -> None:
        """Append a line."""
        self.append(f"{json.dumps(row)}\n".encode())


@read_again_if_stale
def read(logdir: StrPath) -> list[dict[str, float]]:
    """Read the rows in a log directory, without damaged or incomplete lines; FileNotFoundError if there is no file."""
    place = os.path.join(logdir, FILE)
    with open_file(place) as file:
        rows = [row for _, row in _lines(file)]
    if damaged := rows.count(None):
        _log.warning("%s: skipped %s", place, quantity(damaged, "damaged line"))
    return [row for row in rows if row is not None]


def _lines(file: IO[bytes]) -> Iterator[tuple[bytes, dict[str, float] | None]]:
    """Yield complete lines (overlong ones in parts), each with its row: numbers by name; None if it is damaged."""
    while line := file.readline(_MAX_LINE):
        row = None
        with contextlib.suppress(ValueError):
            found = json_object(line)
            if math.isfinite(number(found, "env_frames")):
                row = {name: number(found, name) for name in found}
        if line.endswith(b"\n") or len(line) == _MAX_LINE:
            yield line, row
