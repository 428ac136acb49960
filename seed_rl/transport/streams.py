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

    def step(self, lease: GroupLease, env_ids: np.ndarray, first: bool, output: EnvOutput, stream: ActorStream) -> None:
        """Takes the observations of a group's environments.

        Args:
          lease: from `open`.
          env_ids: int32 [E]: those of the lease, or some of them.
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
        self._codec = self._asked = StepCodec(env_spec, len(self._lease.env_ids), bounds)
        """Of steps of the whole group; of the last one."""
        self._ids = self._waiting = self._lease.env_id_array
        """All environments of the group; those which must begin an episode with their next observation."""
        self._memory = self._open_memory(opening.memory)
        self._views = [] if self._memory is None else self._codec.views(self._memory)
        streams.add(self)
        stats.streams = len(streams)
        call.listen(self._received, self._vanished, () if self._memory is None else (protocol.MEMORY_ACCEPTED,))

    def answer(self, actions: np.ndarray) -> None:
        """Sends actions [E, ...] for the last step, if the stream is still there. On any thread."""
        self._call.post(functools.partial(self._send, actions))

    def end(self, error: Exception) -> None:
        """Ends the stream from the learner's side, with this error. On the server's thread."""
        if not self._call.is_over:
            self._close(str(error))
            self._call.refuse(error)

    def _send(self, actions: np.ndarray) -> None:
        self.silent_since = time.monotonic()
        try:
            self._call.send(self._asked.encode_actions(actions))
        except WireError as error:  # not the actor's fault
            self.end(error)

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
                env_ids, output = self._read(message)
            self._service.step(self._lease, env_ids, first, output, self)
        except Exception as error:
            self.end(error)

    def _read(self, message: bytes) -> tuple[np.ndarray, EnvOutput]:
        """The environments that a message is about, and their step."""
        codec, views, env_ids, in_memory = self._codec, self._views, self._ids, protocol.ALL_IN_MEMORY
        if 0 < len(self._waiting) < codec.num_envs:
            some = codec.of(len(self._waiting))
            size = some.step_bytes if self._memory is None else len(protocol.SOME_IN_MEMORY)
            if len(message) == size:
                codec, env_ids, in_memory = some, self._waiting, protocol.SOME_IN_MEMORY
                views = [] if self._memory is None else some.views(self._memory)
        if self._memory is None:
            output = codec.decode_step(message)
        elif message == in_memory:
            output = codec.read_step(views)
        else:
            raise WireError(f"expected an empty message for a step in shared memory, got {len(message)} bytes")
        if len(self._waiting) and not output.done[np.isin(env_ids, self._waiting)].all():
            raise WireError("done must be 1 in an environment's first step, and in the one after its last, got 0")
        self._asked, self._waiting = codec, env_ids[output.last]
        return env_ids, output

    def _vanished(self) -> None:
        self._close("the actor vanished")

    def _close(self, reason: str) -> None:
        """Frees the group before the actor is notified and may join again."""
        # The last references to the actor's memory, unless an observation is still being read.
        self._memory, self._views = None, []
        self._streams.discard(self)
        self._stats.streams = len(self._streams)
        self._service.close(self._opening.session, self._opening.group, self._lease, reason)

    def _open_memory(self, offer: str) -> memoryview | None:
        """The memory that the actor offers for its steps, if this process can open it."""
        try:
            return open_offered(offer, self._codec.payload_bytes) if offer else None
        except OSError as error:
            self._call.report(logging.INFO, f"offers shared memory, but {error}: its steps arrive as messages")
            return None
