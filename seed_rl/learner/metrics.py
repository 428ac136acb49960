"""The numbers a run leaves behind: `metrics.jsonl`, TensorBoard curves, and a callback for whoever watches."""

from __future__ import annotations

import collections
import json
import os
import threading
from typing import Any

import numpy as np
from tensorboard.compat.proto.event_pb2 import Event, SessionLog
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.event_file_writer import EventFileWriter

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


class MetricsWriter:
    """Appends rows of scalars to a run's log directory.

    A resumed run continues the curves: rows that lie behind its checkpoint are removed from the file, and TensorBoard
    is told to forget them.
    """

    def __init__(self, logdir: str, resume_frames: int | None):
        """
        Args:
          logdir: the run's directory.
          resume_frames: `env_frames` of the checkpoint that the run continues from, None for a new run.
        """
        os.makedirs(logdir, exist_ok=True)
        self._path = os.path.join(logdir, FILE)
        _truncate(self._path, resume_frames)
        self._file = open(self._path, "a", encoding="utf-8")  # noqa: SIM115 (closed by close)
        self._events = EventFileWriter(logdir)
        self._events.add_event(
            Event(
                step=0 if resume_frames is None else resume_frames + 1, session_log=SessionLog(status=SessionLog.START)
            )
        )

    def write(self, row: dict[str, float], wall_time: float) -> None:
        """Writes a row; its `env_frames` is the horizontal axis.

        Args:
          row: scalars by name.
          wall_time: seconds since the epoch.
        """
        self._file.write(json.dumps(row) + "\n")
        self._file.flush()
        values = [Summary.Value(tag=_tag(name), simple_value=value) for name, value in row.items()]
        self._events.add_event(Event(wall_time=wall_time, step=int(row["env_frames"]), summary=Summary(value=values)))
        self._events.flush()

    def close(self) -> None:
        """Flushes and closes both."""
        self._file.close()
        self._events.close()


def read(logdir: str) -> list[dict[str, float]]:
    """The rows of a run; an unfinished last line (of a run that was killed) is passed over."""
    with open(os.path.join(logdir, FILE), encoding="utf-8") as file:
        return [json.loads(line) for line in file if line.endswith("\n")]


def _truncate(path: str, frames: int | None) -> None:
    if not os.path.exists(path):
        return
    with open(path, encoding="utf-8") as file:
        kept = [
            line
            for line in file
            if frames is not None and line.endswith("\n") and json.loads(line)["env_frames"] <= frames
        ]
    with open(f"{path}.partial", "w", encoding="utf-8") as file:
        file.writelines(kept)
    os.replace(f"{path}.partial", path)


def _tag(name: str) -> str:
    return name if "/" in name else f"run/{name}"
