"""Several learner processes, on as many hosts, that train one model together."""

from __future__ import annotations

import dataclasses


class HostLost(Exception):
    """Another learner process is gone, without which no update can be made; one sentence."""


@dataclasses.dataclass(frozen=True)
class Hosts:
    """The learner processes and which of them this one is. Each serves actors of its own."""

    addresses: tuple[str, ...] = ()
    """`host:port` of each, where the others reach it; in the same order everywhere. Empty: there is only this one."""
    index: int = 0
    """This one's place among them; the first writes the checkpoints."""

    def __post_init__(self):
        if not 0 <= self.index < self.count:
            raise ValueError(f"of {self.count} learner hosts the index must be 0 to {self.count - 1}, got {self.index}")
        if len(set(self.addresses)) < len(self.addresses):
            raise ValueError(f"learner hosts must have different addresses, got {','.join(self.addresses)}")

    @property
    def count(self) -> int:
        """Processes, at least 1."""
        return max(1, len(self.addresses))


ALONE = Hosts()
"""A single learner process."""
