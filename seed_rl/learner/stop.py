"""How a run hears that it is to end."""

from __future__ import annotations

from typing import Protocol


class Stop(Protocol):
    """Says whether to end; a `threading.Event` will do."""

    def is_set(self) -> bool:
        """Whether to end soon."""
