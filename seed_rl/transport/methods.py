"""The names of methods and metadata that client and server agree on, and how they detect a peer that vanished."""

from __future__ import annotations

import re
from collections.abc import Sequence

from seed_rl.transport import seed_rl_pb2 as pb
from seed_rl.transport.refusal import WireError

_SERVICE = pb.DESCRIPTOR.services_by_name["Learner"].full_name

DESCRIBE = f"/{_SERVICE}/Describe"
JOIN = f"/{_SERVICE}/Join"
ACT = f"/{_SERVICE}/Act"

Metadata = Sequence[tuple[str, str | bytes]]

_SESSION_KEY = "seed-rl-session"
_GROUP_KEY = "seed-rl-group"
_MEMORY_KEY = "seed-rl-memory"


def membership_metadata(session: str, group: int) -> tuple[tuple[str, str], ...]:
    """Says which group of which session an Act stream is for."""
    return ((_SESSION_KEY, session), (_GROUP_KEY, str(group)))


def membership(metadata: Metadata) -> tuple[str, int]:
    """Session and group index of an Act stream.

    Raises:
      WireError: they are missing or malformed.
    """
    values = dict(metadata)
    session, group = str(values.get(_SESSION_KEY, "")), str(values.get(_GROUP_KEY, ""))
    if not session or not re.fullmatch("[0-9]{1,6}", group):
        got = f"{session[:20]!r} and {group[:20]!r}"
        raise WireError(f"expected a session in metadata {_SESSION_KEY} and an index in {_GROUP_KEY}, got {got}")
    return session, int(group)


def memory_metadata(text: str) -> tuple[tuple[str, str], ...]:
    """From an actor, its offer of shared memory for an Act stream's steps; from the learner, that it accepts."""
    return ((_MEMORY_KEY, text),)


def memory(metadata: Metadata) -> str:
    """The text given to `memory_metadata`; empty if there is none."""
    return str(dict(metadata).get(_MEMORY_KEY, ""))


def keepalive_options(seconds: float) -> list[tuple[str, int]]:
    """Channel options that detect a peer that vanished, within twice this many seconds.

    Both sides send pings. By default a server counts frequent ones as an attack (too_many_pings), so these limits are
    lifted.
    """
    milliseconds = int(1000 * seconds)
    return [
        ("grpc.keepalive_time_ms", milliseconds),
        ("grpc.keepalive_timeout_ms", milliseconds),
        # gRPC 1.85 starts no timer for the line above, and gives up only after this one, by default a minute.
        ("grpc.http2.ping_timeout_ms", milliseconds),
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.max_pings_without_data", 0),  # unlimited
        ("grpc.http2.min_ping_interval_without_data_ms", milliseconds // 2),
        ("grpc.http2.max_ping_strikes", 0),  # unlimited
    ]
