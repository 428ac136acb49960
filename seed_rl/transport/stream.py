"""A group's stream at the learner's end, and what hands its steps on."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import grpc
import numpy as np

from seed_rl.specs import GroupLease
from seed_rl.transport.calls import IncomingCall
from seed_rl.transport.codec import StepCodec, WireError
from seed_rl.transport.refusal import reading, refuse
from seed_rl.types import EnvOutput


@dataclasses.dataclass
class ServerStats:
    """What the server has done since it started, written without a lock.

    Each field is written by one thread, the server's or the one that answers; anyone may read.
    """

    streams: int = 0
    """Streams that are open now."""
    streams_opened: int = 0
    streams_refused: int = 0
    """Streams that didn't begin, or ended early, by the learner's decision."""
    steps: int = 0
    """Messages answered, each a step of one group."""
    bytes_received: int = 0
    """On the wire; steps that are read from shared memory don't count."""
    bytes_sent: int = 0


class ActorStream:
    """A group's stream, open: each message is a step, and is answered before the next is read."""

    def __init__(
        self,
        call: IncomingCall,
        lease: GroupLease,
        codec: StepCodec,
        memory: memoryview | None,
        step: Callable[[GroupLease, bool, EnvOutput, ActorStream], None],
        on_end: Callable[[ActorStream, str, bool], None],
        stats: ServerStats,
        post: Callable[[Callable[[], None]], None],
    ):
        """
        Args:
          call: to be listened to with this as its conversation.
          lease: of the group.
          codec: of the group.
          memory: where the actor writes its steps; None: they come in the messages.
          step: of the `Service`.
          on_end: called once, with the reason in words and whether the learner has ended the stream, before the actor
            is told: whoever hears of the end may open the group again at once.
          stats: counts messages.
          post: has a function called on the server's thread.
        """
        self._call = call
        self._lease = lease
        self._codec = codec
        self._shared = None if memory is None else codec.views(memory)
        self._step = step
        self._on_end = on_end
        self._stats = stats
        self._post = post
        self._first = True
        self._ended = False

    def answer(self, actions: np.ndarray) -> None:
        """Sends actions [E, ...] for the last step, if the stream is still there. On any thread."""
        try:
            reply = self._codec.encode_actions(actions)
        except WireError as error:
            self.refuse(error)
            return
        if self._call.is_over:
            return
        self._stats.steps += 1  # before anybody can know of the answer
        self._stats.bytes_sent += len(reply)
        self._call.send(reply)

    def refuse(self, error: Exception) -> None:
        """Ends the stream instead of an answer. On any thread."""
        self._post(lambda: self.end(error))

    def received(self, message: bytes | None) -> None:
        """A step, or the actor's leave. On the server's thread."""
        if message is None:
            self._close("the actor left", refused=False)
            self._call.finish(grpc.StatusCode.OK)
            return
        self._stats.bytes_received += len(message)
        first, self._first = self._first, False
        try:
            with reading():
                output = self._codec.decode_step(message) if self._shared is None else self._read(message, self._shared)
            self._step(self._lease, first, output, self)
        except Exception as error:
            self.end(error)

    def _read(self, message: bytes, shared: EnvOutput) -> EnvOutput:
        """A step from shared memory, which the actor leaves alone until it has its answer."""
        if message:
            raise WireError(f"expected an empty message for a step in shared memory, got {len(message)} bytes")
        output = shared._replace(reward=shared.reward.copy(), done=shared.done.copy())
        self._codec.check(output)
        return output

    def vanished(self) -> None:
        """The connection is gone. On the server's thread."""
        self._close("the actor vanished", refused=False)

    def end(self, error: Exception) -> None:
        """The learner ends the stream, for this reason. On the server's thread."""
        if not self._ended:
            self._close(str(error), refused=True)
            refuse(self._call, error)

    def _close(self, reason: str, refused: bool) -> None:
        if not self._ended:
            self._ended = True
            self._shared = None  # the actor's memory is freed as soon as nobody looks at it
            self._on_end(self, reason, refused)
