"""Means over episodes, and `metrics.jsonl`, the file with the rows of a run."""

from __future__ import annotations

import collections
import io
import json
import os
from typing import Any

import numpy as np

from seed_rl.object_store import local_file

FILE = "metrics.jsonl"
RECENT_EPISODES = 100
RECENT_EVAL_EPISODES = 30


class EpisodeWindow:
    """The last `size` episodes."""

    def __init__(self, size: int):
        self._episodes: collections.deque[tuple[float, int]] = collections.deque(maxlen=size)
        self.count = 0

    def add(self, returns: np.ndarray, lengths: np.ndarray) -> None:
        """Appends episodes: returns float [n] and lengths int [n] in agent steps."""
        self._episodes.extend(zip(returns.tolist(), lengths.tolist(), strict=True))
        self.count += len(returns)

    def means(self) -> dict[str, float]:
        """`episode_return` and `episode_length`, averaged over the window; empty before the first episode."""
        if not self._episodes:
            return {}
        means = np.mean(self._episodes, axis=0).tolist()
        return dict(zip(("episode_return", "episode_length"), means, strict=True))

    def get_state(self) -> dict[str, Any]:
        """The window as JSON values."""
        return {"episodes": list(self._episodes), "count": self.count}

    def set_state(self, state: dict[str, Any]) -> None:
        """Restores a state of `get_state`."""
        self._episodes.extend((float(value), int(length)) for value, length in state["episodes"])
        self.count = int(state["count"])


class RecordFile:
    """A file to which records are appended, each whole or not at all.

    When a disk fills up, the first part of a record may be written before the rest fails. That part is removed, so that
    the next record follows the last whole one. Nothing is buffered.
    """

    def __init__(self, path: str):
        self._file = io.FileIO(path, "a")

    def append(self, record: bytes) -> None:
        """Appends a record.

        Raises:
          OSError: it can't be written.
        """
        size = os.fstat(self._file.fileno()).st_size
        try:
            while record:
                record = record[self._file.write(record) :]
        except OSError:
            self._file.truncate(size)
            raise

    def close(self) -> None:
        """Closes the file."""
        self._file.close()


class MetricsFile(RecordFile):
    """A sink (`reporting.sinks.Sink`) that writes each row as a line of `metrics.jsonl`.

    A resumed run continues the file from its checkpoint: later rows are removed, and by a new run all.
    """

    def __init__(self, logdir: str, resume_frames: int | None):
        """Opens the file; see `reporting.sinks.sinks_of` for the arguments."""
        path = os.path.join(logdir, FILE)
        super().__init__(path)
        self._file.truncate(0 if resume_frames is None else _length_until(path, resume_frames))

    def write(self, row: dict[str, float], wall_time: float) -> None:
        """Appends a line."""
        self.append(f"{json.dumps(row)}\n".encode())

    def film(self, mp4: str, gif: str, env_frames: int, wall_time: float) -> None:
        """Films have files of their own."""


def read(logdir: str) -> list[dict[str, float]]:
    """The rows of a run, without an unfinished last line that a killed run leaves.

    Args:
      logdir: directory of the run; in an object store, as far as the learner has uploaded it.

    Raises:
      FileNotFoundError: the run has no rows.
      CannotReach: the store can't be read.
    """
    with local_file(os.path.join(logdir, FILE)) as path, open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file if line.endswith("\n")]


def _length_until(path: str, frames: int) -> int:
    """Bytes of the rows up to `frames`, or up to a line that a kill or a power failure left unreadable."""
    length = 0
    with open(path, "rb") as file:
        for line in file:
            try:
                if not line.endswith(b"\n") or json.loads(line)["env_frames"] > frames:
                    break
            except ValueError:
                break
            length += len(line)
    return length
