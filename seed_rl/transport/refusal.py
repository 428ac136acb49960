"""How the learner refuses an actor's call, in words that don't depend on gRPC."""

from __future__ import annotations

import contextlib
import enum
from collections.abc import Iterator


class Refusal(enum.Enum):
    """Why a call is refused. On the wire each is gRPC's status code of the same name."""

    # Another try would fare no better: the actor gives up.
    INVALID_ARGUMENT = "a malformed message"
    FAILED_PRECONDITION = "another protocol version, or other spaces"
    UNAUTHENTICATED = "no token, or a wrong one"
    UNIMPLEMENTED = "an unknown method"
    # The actor tries again after a back-off.
    NOT_FOUND = "an unknown session"
    RESOURCE_EXHAUSTED = "no room for more environments"
    UNAVAILABLE = "the learner is stopping"
    INTERNAL = "a fault in the learner"

    @property
    def is_final(self) -> bool:
        """Whether the actor gives up."""
        return self in (self.INVALID_ARGUMENT, self.FAILED_PRECONDITION, self.UNAUTHENTICATED, self.UNIMPLEMENTED)


class Refused(Exception):
    """Ends a call with one sentence for the person who started the actor."""

    def __init__(self, refusal: Refusal, sentence: str):
        super().__init__(sentence)
        self.refusal = refusal


class WireError(ValueError):
    """A message that isn't as agreed; one sentence that says what was expected and what came."""


class VersionMismatch(WireError):
    """Learner and actor speak different versions of the protocol."""


@contextlib.contextmanager
def reading() -> Iterator[None]:
    """Blames the peer for a ValueError, which elsewhere is the learner's own fault."""
    try:
        yield
    except VersionMismatch as error:
        raise Refused(Refusal.FAILED_PRECONDITION, str(error)) from error
    except ValueError as error:
        raise Refused(Refusal.INVALID_ARGUMENT, str(error)) from error
