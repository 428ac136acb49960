"""Several learner processes, one per host, that train one model."""

from __future__ import annotations

import dataclasses


class HostLost(Exception):
    """Another learner process is gone, without which no update can be made; one sentence."""


@dataclasses.dataclass(frozen=True)
class Hosts:
    """The learner processes of a run, and the index of this one. Each serves its own actors."""

    addresses: tuple[str, ...] = ()
    """`host:port` of each, where the others reach it; in the same order everywhere. Empty: a single process."""
    index: int = 0
    """The index of this process; process 0 writes the checkpoints."""

    def __post_init__(self):
        if not 0 <= self.index < self.count:
            raise ValueError(f"of {self.count} learner hosts the index must be 0 to {self.count - 1}, got {self.index}")
        if len(set(self.addresses)) < len(self.addresses):
            raise ValueError(f"learner hosts must have different addresses, got {','.join(self.addresses)}")

    @property
    def count(self) -> int:
        """Number of processes, at least 1."""
        return max(1, len(self.addresses))


ALONE = Hosts()
"""A single learner process."""
