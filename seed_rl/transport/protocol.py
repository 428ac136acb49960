"""Conventions shared by client and server: methods, metadata, refusals and keepalive."""

from __future__ import annotations

import contextlib
import enum
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

MAX_GROUPS = 512
"""Most groups of environments, each with a stream, per connection of an actor."""

KEEPALIVE_SECONDS = 10.0
"""How long a peer may be silent before it is pinged, and how long it then has to answer before it counts as lost."""

AGE_SECONDS = 600.0
"""Age at which a connection accepts no further calls."""

_HANDSHAKE_MILLISECONDS = 10_000

DESCRIBE, JOIN, ACT = "/seed_rl.Learner/Describe", "/seed_rl.Learner/Join", "/seed_rl.Learner/Act"

Metadata = Sequence[tuple[str, str | bytes]]

_SESSION_KEY, _GROUP_KEY, _MEMORY_KEY = "seed-rl-session", "seed-rl-group", "seed-rl-memory"

MEMORY_ACCEPTED = (_MEMORY_KEY, "shared")
"""The learner's metadata on a stream whose steps it reads from the offered memory."""
ALL_IN_MEMORY, SOME_IN_MEMORY = b"", b"\x0a\x00"
"""Messages for steps in shared memory: of the whole group, or of only the environments whose last observation ended an
episode. Both are a `StepRequest` without data; in the second, the payload is present but empty."""
NUMBERS = b"\x12"
"""First byte of the numbers about episodes that may follow a step: the tag of `StepRequest.numbers`."""


class Opening(NamedTuple):
    """The metadata with which an actor opens a group's stream."""

    session: str
    group: int
    memory: str = ""
    """An offer of shared memory for the steps, or an empty string."""

    def metadata(self) -> tuple[tuple[str, str], ...]:
        offer = ((_MEMORY_KEY, self.memory),) if self.memory else ()
        return ((_SESSION_KEY, self.session), (_GROUP_KEY, str(self.group)), *offer)

    @classmethod
    def read(cls, metadata: Metadata) -> Opening:
        """Read an opening from the metadata of a call; raise WireError if session or group is malformed."""
        values = dict(metadata)
        session, group, memory = (str(values.get(key, "")) for key in (_SESSION_KEY, _GROUP_KEY, _MEMORY_KEY))
        if not session or not re.fullmatch("[0-9]{1,6}", group):
            got = f"{session[:20]!r} and {group[:20]!r}"
            raise WireError(f"expected a session in metadata {_SESSION_KEY} and an index in {_GROUP_KEY}, got {got}")
        return cls(session, int(group), memory)


class Refusal(enum.Enum):
    """Why the learner refuses a call. On the wire each is gRPC's status code of the same name."""

    # Retrying would fail again: the actor gives up.
    INVALID_ARGUMENT = "a malformed message"
    FAILED_PRECONDITION = "another protocol version, or other spaces"
    UNAUTHENTICATED = "no token, or a wrong one"
    UNIMPLEMENTED = "an unknown method"
    PERMISSION_DENIED = "a proxy in between"
    ABORTED = "the run is over"  # the actor ends as it does with its stream
    # The actor retries after a back-off.
    NOT_FOUND = "an unknown session"
    RESOURCE_EXHAUSTED = "no room for more environments"
    UNAVAILABLE = "the learner is stopping"
    INTERNAL = "a fault in the learner"

    @property
    def is_final(self) -> bool:
        """Whether the actor gives up."""
        return self not in (self.NOT_FOUND, self.RESOURCE_EXHAUSTED, self.UNAVAILABLE, self.INTERNAL)


class Refused(Exception):
    """Ends a call with a message for the person who started the actor."""

    def __init__(self, refusal: Refusal, sentence: str):
        super().__init__(sentence)
        self.refusal = refusal


class WireError(ValueError):
    """A malformed message; the error says what was expected and what came."""


class VersionMismatch(WireError):
    """Learner and actor speak different versions of the protocol."""


@contextlib.contextmanager
def reading() -> Iterator[None]:
    """Blame any ValueError on the peer; outside this context it is the learner's own fault."""
    try:
        yield
    except ValueError as error:
        is_version = isinstance(error, VersionMismatch)
        refusal = Refusal.FAILED_PRECONDITION if is_version else Refusal.INVALID_ARGUMENT
        raise Refused(refusal, str(error)) from error


def keepalive_options() -> list[tuple[str, int]]:
    """Return channel options with which both sides detect a vanished peer within twice `KEEPALIVE_SECONDS`."""
    milliseconds = int(1000 * KEEPALIVE_SECONDS)
    return [
        ("grpc.keepalive_time_ms", milliseconds),
        ("grpc.keepalive_timeout_ms", milliseconds),
        # gRPC 1.85 starts no timer for the option above; only this one counts, by default a minute.
        ("grpc.http2.ping_timeout_ms", milliseconds),
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.max_pings_without_data", 0),  # unlimited
        ("grpc.http2.min_ping_interval_without_data_ms", milliseconds // 2),  # more are an attack: too_many_pings
    ]


def server_options(max_message_bytes: int, max_connections: int) -> list[tuple[str, int]]:
    """Return server options that bound the resources a peer can take before it shows its token."""
    return [
        ("grpc.max_receive_message_length", max_message_bytes),
        ("grpc.so_reuseport", 0),  # otherwise two learners could share a port unnoticed
        ("grpc.max_allowed_incoming_connections", max_connections),
        ("grpc.server_handshake_timeout_ms", _HANDSHAKE_MILLISECONDS),
        ("grpc.http2.settings_timeout", _HANDSHAKE_MILLISECONDS),
        ("grpc.max_connection_idle_ms", 300_000),  # building environments between two calls may take this long
        ("grpc.max_connection_age_ms", int(1000 * AGE_SECONDS)),
        ("grpc.max_connection_age_grace_ms", 2**31 - 1),  # unlimited: open streams continue
        ("grpc.http2.max_ping_strikes", 3),
        # gRPC keeps counting a cancelled call until the server has dealt with it, so opening calls and cancelling them
        # at once (a rapid reset) gets no further than this.
        ("grpc.max_concurrent_streams", MAX_GROUPS + 16),  # for an actor's other calls
        *keepalive_options(),
    ]
