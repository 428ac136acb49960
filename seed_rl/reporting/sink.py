"""Protocol for destinations of metrics and films."""

from typing import Protocol


class Sink(Protocol):
    """A destination of rows of metrics, and of films unless it has no use for them.

    Times are seconds since the epoch. What raises OSError has taken nothing.
    """

    def write(self, row: dict[str, float], wall_time: float) -> None:
        """Take a row: scalars by their names in `metrics.jsonl`, including `env_frames`, the horizontal axis."""

    def film(self, mp4: str, gif: str, env_frames: int, wall_time: float) -> None:
        """Take a film of the policy, by default without using it: paths of both formats, and approximate frames."""
        return None

    def close(self) -> None:
        """Close the destination; called once, after the last row."""
