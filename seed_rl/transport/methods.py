"""What client and server must agree on beyond the messages: names of methods and metadata, signs of life."""

from __future__ import annotations

from collections.abc import Iterable

from seed_rl.transport import seed_rl_pb2 as pb
from seed_rl.transport.codec import WireError

_SERVICE = pb.DESCRIPTOR.services_by_name["Learner"].full_name

DESCRIBE = f"/{_SERVICE}/Describe"
JOIN = f"/{_SERVICE}/Join"
ACT = f"/{_SERVICE}/Act"

_SESSION_KEY = "seed-rl-session"
_GROUP_KEY = "seed-rl-group"
_MEMORY_KEY = "seed-rl-memory"
_MAX_GROUP_DIGITS = 6


def membership_metadata(session: str, group: int) -> tuple[tuple[str, str], ...]:
    """Says which group of which session an Act stream is for."""
    return ((_SESSION_KEY, session), (_GROUP_KEY, str(group)))


def membership(metadata: Iterable[tuple[str, str | bytes]]) -> tuple[str, int]:
    """Session and group index of an Act stream.

    Raises:
      WireError: they are missing or malformed.
    """
    values = {key: str(value) for key, value in metadata if key in (_SESSION_KEY, _GROUP_KEY)}
    if len(values) < 2:
        raise WireError(f"expected metadata {_SESSION_KEY} and {_GROUP_KEY}, got {', '.join(values) or 'neither'}")
    group = values[_GROUP_KEY]
    if not (group.isascii() and group.isdigit() and len(group) <= _MAX_GROUP_DIGITS):
        raise WireError(f"expected the index of a group in metadata {_GROUP_KEY}, got {group[:20]!r}")
    return values[_SESSION_KEY], int(group)


def memory_metadata(text: str) -> tuple[tuple[str, str], ...]:
    """An actor's offer of shared memory for an Act stream's steps; from the learner: whether it has taken it."""
    return ((_MEMORY_KEY, text),)


def memory(metadata: Iterable[tuple[str, str | bytes]]) -> str:
    """What `memory_metadata` said; empty if nothing."""
    return next((str(value) for key, value in metadata if key == _MEMORY_KEY), "")


def keepalive_options(seconds: float) -> list[tuple[str, int]]:
    """Channel options that find out about a peer that vanished, within twice this many seconds.

    Both sides ask. A server by default counts frequent pings as an attack (too_many_pings), so it is told to expect
    them.
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
