"""How a call of an actor is refused: a status and one sentence."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator

import grpc

from seed_rl.transport import messages
from seed_rl.transport.calls import IncomingCall
from seed_rl.transport.codec import WireError

_log = logging.getLogger(__name__)

_MAX_SENTENCE = 1000  # characters; a status travels in headers, whose size is limited


class Refused(Exception):
    """Ends a call with a status and one sentence for the person who started the actor."""

    def __init__(self, code: grpc.StatusCode, sentence: str):
        super().__init__(sentence)
        self.code = code
        self.sentence = sentence


@contextlib.contextmanager
def reading() -> Iterator[None]:
    """What the peer sent is its fault; a WireError anywhere else is ours."""
    try:
        yield
    except messages.VersionMismatch as error:
        raise Refused(grpc.StatusCode.FAILED_PRECONDITION, str(error)) from error
    except WireError as error:
        raise Refused(grpc.StatusCode.INVALID_ARGUMENT, str(error)) from error


def refuse(call: IncomingCall, error: Exception) -> None:
    """Ends a call with the status that fits the error."""
    if not isinstance(error, Refused):
        _log.error("a call of %s failed in the learner", call.peer, exc_info=error)
        error = Refused(grpc.StatusCode.INTERNAL, f"the learner failed: {error!r}")
    call.finish(error.code, error.sentence[:_MAX_SENTENCE])
