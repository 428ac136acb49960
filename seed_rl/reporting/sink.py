"""The protocol of destinations of rows of metrics and of films."""

from __future__ import annotations

from typing import Protocol


class Sink(Protocol):
    """A destination of rows of metrics."""

    def write(self, row: dict[str, float], wall_time: float) -> None:
        """Takes a row.

        Args:
          row: scalars by their names in `metrics.jsonl`; `env_frames` is the horizontal axis.
          wall_time: seconds since the epoch.

        Raises:
          OSError: the sink has taken nothing of it.
        """

    def film(self, mp4: str, gif: str, env_frames: int, wall_time: float) -> None:
        """Takes a film of the policy.

        Args:
          mp4: path of the film in the log directory.
          gif: the same film in the other format.
          env_frames: about when it was made, as in the rows.
          wall_time: seconds since the epoch.

        Raises:
          OSError: the sink has taken nothing of it.
        """

    def close(self) -> None:
        """Called once, after the last row."""
