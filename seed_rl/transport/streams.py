"""The learner's side of a group's stream, and the interface of what answers it."""

from __future__ import annotations

import dataclasses
import functools
import logging
import math
import time
from collections.abc import Sequence
from typing import Protocol

import numpy as np

from seed_rl.specs import ActorSettings, EnvSpec, GroupLease, Lease
from seed_rl.transport import protocol
from seed_rl.transport.calls import IncomingCall
from seed_rl.transport.codec import Bounds, StepCodec
from seed_rl.transport.protocol import WireError, reading
from seed_rl.transport.shared_memory import open_offered
from seed_rl.types import EnvOutput


class Service(Protocol):
    """The transport's view of central inference.

    Each method is called on the server's thread and must return at once. `join`, `open` and `step` may raise `Refused`.
    """

    def describe(self) -> ActorSettings:
        """The settings from which an actor builds its environments."""

    def join(self, run_id: str, env_spec: EnvSpec, group_sizes: Sequence[int], peer: str) -> Lease:
        """Makes room for an actor's groups."""

    def open(self, session: str, group: int) -> tuple[GroupLease, EnvSpec]:
        """Called when a group's stream begins; returns its environments and their spec."""

    def step(self, lease: GroupLease, first: bool, output: EnvOutput, stream: ActorStream) -> None:
        """Takes the observations of a group of E environments.

        Args:
          lease: from `open`.
          first: whether this is the stream's first message.
          output: fields [E, ...], read-only. The observation must not be read once the answer is given.
          stream: takes the actions, once.
        """

    def close(self, session: str, group: int, lease: GroupLease, reason: str) -> None:
        """A group's stream has ended; called exactly once after each `open` that returned."""


@dataclasses.dataclass
class ServerStats:
    """Written by the server's thread without a lock; any thread may read."""

    streams: int = 0
    """Open streams."""
    steps: int = 0
    """Group steps that have arrived since the server started."""


class ActorStream:
    """A group's open stream: each message is a step, and is answered before the next is read."""

    def __init__(
        self,
        call: IncomingCall,
        service: Service,
        opening: protocol.Opening,
        streams: set[ActorStream],  # of the server: it is one of them while it is open
        stats: ServerStats,
        bounds: Bounds,
    ):
        self._call = call
        self._service = service
        self._opening = opening
        self._streams = streams
        self._stats = stats
        self._first = True
        self.silent_since = time.monotonic()
        """When the actor was last answered; infinite while the learner has its step."""
        self._lease, env_spec = service.open(opening.session, opening.group)
        self._codec = StepCodec(env_spec, len(self._lease.env_ids), bounds)
        self._shared = self._open_memory(opening.memory)
        streams.add(self)
        stats.streams = len(streams)
        call.listen(self._received, self._vanished, (protocol.MEMORY_ACCEPTED,) if self._shared else ())

    def answer(self, actions: np.ndarray) -> None:
        """Sends actions [E, ...] for the last step, if the stream is still there. On any thread."""
        self.silent_since = time.monotonic()
        try:
            self._call.send(self._codec.encode_actions(actions))
        except WireError as error:  # not the actor's fault
            self.end_soon(error)

    def end_soon(self, error: Exception) -> None:
        """As `end`, on any thread."""
        self._call.post(functools.partial(self.end, error))

    def end(self, error: Exception) -> None:
        """Ends the stream from the learner's side, with this error. On the server's thread."""
        if not self._call.is_over:
            self._close(str(error))
            self._call.refuse(error)

    def _received(self, message: bytes | None) -> None:
        if message is None:
            self._close("the actor left")
            self._call.finish()
            return
        self.silent_since = math.inf
        self._stats.steps += 1
        first, self._first = self._first, False
        try:
            with reading():
                output = self._read(message)
            self._service.step(self._lease, first, output, self)
        except Exception as error:
            self.end(error)

    def _read(self, message: bytes) -> EnvOutput:
        if self._shared is None:
            return self._codec.decode_step(message)
        if message:
            raise WireError(f"expected an empty message for a step in shared memory, got {len(message)} bytes")
        return self._codec.read_step(self._shared)

    def _vanished(self) -> None:
        self._close("the actor vanished")

    def _close(self, reason: str) -> None:
        """Frees the group before the actor is notified and may join again."""
        self._shared = None  # the last reference to the actor's memory, unless an observation is still being read
        self._streams.discard(self)
        self._stats.streams = len(self._streams)
        self._service.close(self._opening.session, self._opening.group, self._lease, reason)

    def _open_memory(self, offer: str) -> list[np.ndarray] | None:
        """Views of the memory that the actor offers for its steps, if this process can open it."""
        try:
            return self._codec.views(open_offered(offer, self._codec.payload_bytes)) if offer else None
        except OSError as error:
            self._call.report(logging.INFO, f"offers shared memory, but {error}: its steps arrive as messages")
            return None
