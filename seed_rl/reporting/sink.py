"""Protocol for destinations of metrics and films."""

from typing import Protocol


class Sink(Protocol):
    """A destination of rows of metrics, and of films unless it has no use for them."""

    def write(self, row: dict[str, float], wall_time: float) -> None:
        """Take a row.

        Args:
          row: scalars by their names in `metrics.jsonl`, including `env_frames`, the horizontal axis.
          wall_time: seconds since the epoch.

        Raises:
          OSError: the sink has taken nothing of it.
        """

    def film(self, mp4: str, gif: str, env_frames: int, wall_time: float) -> None:
        """Take a film of the policy, by default without using it.

        Args:
          mp4: path of the film as MP4, in the log directory.
          gif: path of the same film as GIF.
          env_frames: approximate `env_frames` of the policy.
          wall_time: seconds since the epoch.

        Raises:
          OSError: the sink has taken nothing of it.
        """
        return None

    def close(self) -> None:
        """Close the destination; called once, after the last row."""
