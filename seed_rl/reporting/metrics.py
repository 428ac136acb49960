"""The numbers a run leaves behind: means over episodes, and the file `metrics.jsonl`."""

from __future__ import annotations

import collections
import json
import os
import threading
from typing import Any

import numpy as np

from seed_rl.object_store import local_file
from seed_rl.reporting.appended import AppendedFile

FILE = "metrics.jsonl"
RECENT_EPISODES = 100
RECENT_EVAL_EPISODES = 30


class EpisodeWindow:
    """The last `size` episodes. Written by the inference thread, read by the learner's."""

    def __init__(self, size: int):
        self._lock = threading.Lock()
        self._returns: collections.deque[float] = collections.deque(maxlen=size)
        self._lengths: collections.deque[int] = collections.deque(maxlen=size)
        self.count = 0

    def add(self, returns: np.ndarray, lengths: np.ndarray) -> None:
        """Appends episodes: returns float [n] and lengths int [n] in agent steps."""
        with self._lock:
            self._returns.extend(returns.tolist())
            self._lengths.extend(lengths.tolist())
            self.count += len(returns)

    def means(self) -> dict[str, float]:
        """Means over the window; empty before the first episode."""
        with self._lock:
            if not self._returns:
                return {}
            return {
                "episode_return": float(np.mean(self._returns)),
                "episode_length": float(np.mean(self._lengths)),
            }

    def get_state(self) -> dict[str, Any]:
        """As JSON values."""
        with self._lock:
            return {"returns": list(self._returns), "lengths": list(self._lengths), "count": self.count}

    def set_state(self, state: dict[str, Any]) -> None:
        """Puts a state of `get_state` back."""
        with self._lock:
            self._returns.extend(state["returns"])
            self._lengths.extend(state["lengths"])
            self.count = state["count"]


class MetricsFile:
    """`metrics.jsonl`: a row of scalars per line, as a sink (`reporting.sinks.Sink`).

    A resumed run continues it: rows that lie behind its checkpoint are removed.
    """

    name = FILE

    def __init__(self, logdir: str, resume_frames: int | None):
        """
        Args:
          logdir: the run's directory.
          resume_frames: `env_frames` of the checkpoint that the run continues from, None for a new run.
        """
        self._path = os.path.join(logdir, FILE)
        self._resume_frames = resume_frames
        self._file = AppendedFile(self._path)

    def open(self) -> None:
        """Removes what lies behind the checkpoint: all of it for a new run."""
        if os.path.exists(self._path):
            os.truncate(self._path, _kept_bytes(self._path, self._resume_frames))
        self._file.append(b"")

    def write(self, row: dict[str, float], wall_time: float) -> None:
        """Appends a line."""
        self._file.append(f"{json.dumps(row)}\n".encode())

    def close(self) -> None:
        """Closes the file."""
        self._file.close()


def read(logdir: str) -> list[dict[str, float]]:
    """The rows of a run; an unfinished last line (of a run that was killed) is passed over.

    Args:
      logdir: of the run; may be in an object store, which has what the learner has sent there so far.

    Raises:
      FileNotFoundError: there are none.
      CannotReach: the store can't be read.
    """
    with local_file(os.path.join(logdir, FILE)) as path, open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file if line.endswith("\n")]


def _kept_bytes(path: str, frames: int | None) -> int:
    """Length of the rows up to `frames`. What can't be read, after a power failure say, ends them."""
    kept = 0
    with open(path, "rb") as file:
        for line in file:
            if frames is None or not line.endswith(b"\n") or not _is_row_until(line, frames):
                break
            kept += len(line)
    return kept


def _is_row_until(line: bytes, frames: int) -> bool:
    try:
        return json.loads(line)["env_frames"] <= frames
    except ValueError:
        return False
