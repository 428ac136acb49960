"""The learner's side: serves the actors' calls on one thread and passes their steps to a `Service`."""

from __future__ import annotations

import dataclasses
import functools
import logging
import math
import threading
import time
from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np

from seed_rl.specs import ActorSettings, EnvSpec, GroupLease, Lease
from seed_rl.transport import address as addresses
from seed_rl.transport import messages, protocol
from seed_rl.transport.calls import CallServer, IncomingCall
from seed_rl.transport.codec import StepCodec
from seed_rl.transport.credentials import ServerSecurity
from seed_rl.transport.door import Door, max_connections
from seed_rl.transport.protocol import Refusal, Refused, WireError, reading
from seed_rl.transport.shared_memory import open_offered
from seed_rl.types import EnvOutput

_log = logging.getLogger(__name__)

_STOPPING = "the learner is stopping"
_MAX_UNANSWERED = 64  # calls whose requests are awaited; each may take the memory of a message


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


class ActorServer:
    """Serves actors from `start` to `stop`, on a thread of its own."""

    def __init__(
        self,
        address: str,
        service: Service,
        *,
        security: ServerSecurity,
        max_message_bytes: int = 64 << 20,
        max_reward: float = 1e6,
        keepalive_seconds: float = 10.0,
        silence_seconds: float = 1800.0,
    ):
        """
        Args:
          address: `host:port` (port 0: any free one) or `unix:/path`.
          service: answers the calls.
          security: credentials.
          max_message_bytes: largest message that is read; groups whose steps are larger may not join.
          max_reward: a step with a larger absolute reward ends its stream.
          keepalive_seconds: a peer that has been silent for this long is pinged, and counts as lost after the same
            time without an answer.
          silence_seconds: a stream without a step for so long is ended; some environments take minutes to reset.

        Raises:
          AddressError: malformed.
          SecurityError: `security` isn't enough for this address.
        """
        self.stats = ServerStats()
        self._address = addresses.parse_address(address)
        security.check(self._address)
        self._security = security
        self._credentials = security.credentials()
        self._service = service
        self._max_message_bytes = max_message_bytes
        self._max_reward = max_reward
        self._silence_seconds = silence_seconds
        self._door = Door()
        options = protocol.server_options(keepalive_seconds, max_message_bytes, max_connections())
        self._calls = CallServer(self._on_call, options)
        self._calls.call_later(1.0, self._watch)
        self._unanswered: dict[IncomingCall, None] = {}  # the oldest first
        self._answers = {protocol.DESCRIBE: self._describe, protocol.JOIN: self._join}
        self._streams: set[ActorStream] = set()
        self._stopping = threading.Event()  # set when all streams have ended; no other may begin

    def start(self) -> str:
        """Begins to serve.

        Returns:
          The address, with the port that was chosen.

        Raises:
          AddressError: the address can't be listened on; the server is unusable from then on.
        """
        if self._address.path:
            addresses.clear_stale_socket(self._address.path)
        port = self._calls.start(str(self._address), self._credentials)
        if not port:
            raise addresses.explain_bind_failure(self._address)
        if not self._address.path:
            self._address = dataclasses.replace(self._address, port=port)
        return str(self._address)

    def stop(self, grace: float) -> None:
        """Ends all streams with UNAVAILABLE, so that actors come back later, then the thread. May be called twice.

        Args:
          grace: seconds for calls to end before they are cancelled.
        """
        if self._calls.is_serving:
            self._calls.post(self._end_streams)
            self._stopping.wait(grace)
            self._calls.stop(grace)

    def _end_streams(self) -> None:
        for stream in list(self._streams):
            stream.end(Refused(Refusal.UNAVAILABLE, _STOPPING))
        self._stopping.set()

    def _watch(self) -> None:
        """Ends streams that have been silent for too long, and reports connections that use up the open files."""
        self._calls.call_later(1.0, self._watch)
        latest = time.monotonic() - self._silence_seconds
        error = Refused(Refusal.NOT_FOUND, f"there was no step for {self._silence_seconds:g} s: join again")
        for stream in [stream for stream in self._streams if stream.silent_since < latest]:
            stream.end(error)
        self._door.look()

    def _on_call(self, call: IncomingCall) -> bool:
        """Checks a call's token before any message is read, then its method."""
        peer = call.peer
        try:
            self._security.check_token(call.metadata)
            if call.method == protocol.ACT:
                self._act(call)
            elif call.method in self._answers:
                self._await_request(call, self._answers[call.method])
            else:
                raise Refused(Refusal.UNIMPLEMENTED, f"the learner has no method {call.method[:100]}")
        except Exception as error:
            call.refuse(error)
            return self._door.refuse(peer, error)
        return True

    def _await_request(self, call: IncomingCall, answer: Callable[[bytes, str], bytes]) -> None:
        self._unanswered[call] = None
        call.listen(functools.partial(self._reply, call, answer), functools.partial(self._unanswered.pop, call))
        if len(self._unanswered) > _MAX_UNANSWERED:
            self._unanswered.pop(oldest := next(iter(self._unanswered)))
            oldest.refuse(Refused(Refusal.RESOURCE_EXHAUSTED, f"{_MAX_UNANSWERED} younger calls wait for requests"))

    def _reply(self, call: IncomingCall, answer: Callable[[bytes, str], bytes], request: bytes | None) -> None:
        """Answers a call's only request, as bytes so that the refusal of a malformed one has a reason."""
        del self._unanswered[call]
        try:
            if request is None:
                raise Refused(Refusal.INVALID_ARGUMENT, "expected a request, got none")
            call.finish(answer(request, call.peer))
        except Exception as error:
            call.refuse(error)

    def _describe(self, request: bytes, peer: str) -> bytes:
        with reading():
            client = messages.read_describe_request(request)
        _log.debug("an actor on %s (%s) asks which environments to build", client[:100], peer)
        return messages.describe_reply(self._service.describe())

    def _join(self, request: bytes, peer: str) -> bytes:
        with reading():
            run_id, env_spec, group_sizes = messages.read_join_request(request)
            if len(group_sizes) > protocol.MAX_GROUPS:
                raise WireError(f"expected up to {protocol.MAX_GROUPS} groups, got {len(group_sizes)}")
        largest = StepCodec(env_spec, max(group_sizes)).step_bytes
        if largest > self._max_message_bytes:
            raise Refused(
                Refusal.INVALID_ARGUMENT,
                f"a step of {max(group_sizes)} environments is a message of {largest} bytes and the learner reads up "
                f"to {self._max_message_bytes}: make the groups smaller",
            )
        return messages.join_reply(self._service.join(run_id, env_spec, group_sizes, peer))

    def _act(self, call: IncomingCall) -> None:
        with reading():
            opening = protocol.Opening.read(call.metadata)
        if self._stopping.is_set():
            raise Refused(Refusal.UNAVAILABLE, _STOPPING)
        ActorStream(call, self._service, opening, self._streams, self.stats, self._max_reward)


class ActorStream:
    """A group's open stream: each message is a step, and is answered before the next is read."""

    def __init__(
        self,
        call: IncomingCall,
        service: Service,
        opening: protocol.Opening,
        streams: set[ActorStream],  # of the server: it is one of them while it is open
        stats: ServerStats,
        max_reward: float,
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
        self._codec = StepCodec(env_spec, len(self._lease.env_ids), max_reward)
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
            _log.info("%s offers shared memory, but %s: its steps arrive as messages", self._call.peer, error)
            return None
