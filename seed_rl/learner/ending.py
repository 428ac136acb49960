"""How a run ends: on request, or because training has failed."""

from __future__ import annotations

from typing import Protocol


class Stop(Protocol):
    """Whether to end the run; a `threading.Event` will do."""

    def is_set(self) -> bool:
        """Whether the run is to end soon."""


class Diverged(Exception):
    """Training has failed beyond repair; the message says how."""
