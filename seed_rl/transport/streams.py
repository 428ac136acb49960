"""The learner's side of a group's stream, and the interface of the service that answers it."""

from __future__ import annotations

import dataclasses
import functools
import logging
import math
import time
from collections.abc import Sequence
from typing import Protocol

import numpy as np

from seed_rl.specs import EnvSpec, GroupLease, Lease
from seed_rl.transport import messages, protocol
from seed_rl.transport.calls import IncomingCall
from seed_rl.transport.codec import StepCodec
from seed_rl.transport.protocol import WireError, reading
from seed_rl.transport.shared_memory import open_offered
from seed_rl.types import EnvOutput


@dataclasses.dataclass(eq=False)
class Request:
    """A step of a group's environments that is waiting for actions."""

    lease: GroupLease
    """The lease that `Service.open` returned."""
    env_ids: np.ndarray
    """int32 [E], all or some of the group's environments."""
    first: bool
    """Whether this request begins a new run of the group."""
    output: EnvOutput
    """Fields [E, ...], read-only. The observation must not be read after the answer."""
    stream: ActorStream
    """Expects the actions [E, ...], once."""


class Service(Protocol):
    """Central inference as the transport sees it.

    The server's thread calls all methods, which must return at once. `join`, `open` and `step` may raise `Refused`.
    """

    def join(self, run_id: str, env_spec: EnvSpec, group_sizes: Sequence[int], peer: str) -> Lease:
        """Make room for an actor's groups."""

    def open(self, session: str, group: int) -> tuple[GroupLease, EnvSpec]:
        """Handle the beginning of a group's stream; return its environments and their spec."""

    def step(self, request: Request) -> None:
        """Accept the observations of a group's environments."""

    def report(self, numbers: Sequence[tuple[int, str, float]]) -> None:
        """Accept numbers about episodes that have ended: environment id, name and value."""

    def close(self, session: str, group: int, lease: GroupLease, reason: str) -> None:
        """Handle the end of a group's stream; called exactly once for each `open` that returned."""


class ActorStream:
    """A group's open stream: each message is a step, answered before the next one is read."""

    def __init__(self, call: IncomingCall, service: Service, opening: protocol.Opening, streams: set[ActorStream]):
        """`streams` are all open ones: this one adds and removes itself."""
        self._call, self._service, self._opening, self._streams = call, service, opening, streams
        self._first = True
        self.silent_since = time.monotonic()
        """Time of the last answer; infinite while a step is unanswered."""
        self._lease, env_spec = service.open(opening.session, opening.group)
        codec = StepCodec(env_spec, len(self._lease.env_ids))
        memory = self._open_memory(opening.memory, codec.payload_bytes)
        self._codec = self._asked = codec if memory is None else StepCodec(env_spec, codec.num_envs, memory)
        """Codecs of the whole group's steps, and of the last step."""
        self._ids = self._waiting = self._lease.env_id_array
        """All environments of the group; those whose next observation must begin an episode."""
        streams.add(self)
        vanished = functools.partial(self._close, "the actor vanished")
        call.listen(self._received, vanished, () if memory is None else (protocol.MEMORY_ACCEPTED,))

    def answer(self, actions: np.ndarray) -> None:
        """Send actions [E, ...] for the last step, if the stream still exists. May be called on any thread."""
        self._call.post(functools.partial(self._send, actions))

    def end(self, error: Exception | None) -> None:
        """End the stream with an error, or None if the run is over. Must be called on the server's thread."""
        if not self._call.is_over:
            self._close("the run is over" if error is None else str(error))
            self._call.finish() if error is None else self._call.refuse(error)

    def _send(self, actions: np.ndarray) -> None:
        self.silent_since = time.monotonic()
        try:
            self._call.send(self._asked.encode_actions(actions))
        except WireError as error:  # isn't the actor's fault
            self.end(error)

    def _received(self, message: bytes | None) -> None:
        if message is None:
            self._close("the actor left")
            self._call.finish()
            return
        self.silent_since = math.inf
        first, self._first = self._first, False
        try:
            with reading():
                env_ids, output, numbers = self._read(message)
            if numbers:
                self._service.report(numbers)
            self._service.step(Request(self._lease, env_ids, first, output, self))
        except Exception as error:
            self.end(error)

    def _read(self, message: bytes) -> tuple[np.ndarray, EnvOutput, list[tuple[int, str, float]]]:
        """Decode a message; return its environments, their step, and numbers about their episodes."""
        codec, env_ids, some = self._codec, self._ids, self._codec.of(len(self._waiting))
        if some is not codec and message.startswith(some.header):
            codec, env_ids = some, self._waiting
        size = codec.step_bytes
        size = size if message[size : size + 1] == protocol.NUMBERS else len(message)
        output, tail = codec.decode_step(message[:size]), message[size:]
        numbers = messages.read_episode_numbers(tail, len(env_ids)) if tail else []
        if len(self._waiting) and not output.done[np.isin(env_ids, self._waiting)].all():
            raise WireError("done must be 1 in an environment's first step, and in the one after its last, got 0")
        self._asked, self._waiting = codec, env_ids[output.last]
        return env_ids, output, [(int(env_ids[env]), name, value) for env, name, value in numbers]

    def _close(self, reason: str) -> None:
        """Free the group before the actor learns of it and may join again."""
        self._streams.discard(self)
        self._service.close(self._opening.session, self._opening.group, self._lease, reason)

    def _open_memory(self, offer: str, num_bytes: int) -> memoryview | None:
        try:
            return open_offered(offer, num_bytes) if offer else None
        except OSError as error:
            self._call.report(logging.INFO, f"offers shared memory, but {error}: its steps arrive as messages")
            return None
