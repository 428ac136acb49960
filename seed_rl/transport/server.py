"""The learner's side: serves actors' calls on one thread and hands their steps to a `Service`."""

from __future__ import annotations

import dataclasses
import logging
import threading
from collections.abc import Callable, Sequence
from typing import Protocol

import grpc
from google.protobuf import message as protobuf

from seed_rl.specs import ActorSettings, EnvSpec, GroupLease, Lease
from seed_rl.transport import address as addresses
from seed_rl.transport import messages, methods
from seed_rl.transport import seed_rl_pb2 as pb
from seed_rl.transport.calls import CallServer, IncomingCall
from seed_rl.transport.codec import StepCodec
from seed_rl.transport.credentials import ServerSecurity
from seed_rl.transport.refusal import Refused, reading, refuse
from seed_rl.transport.shared_memory import SharedMemoryError, open_offered
from seed_rl.transport.stream import ActorStream, ServerStats
from seed_rl.types import EnvOutput

_log = logging.getLogger(__name__)

_STOPPING = "the learner is stopping"


class Service(Protocol):
    """What the server serves. Every method is called on the server's thread and must return at once.

    `join`, `open` and `step` may raise `Refused`. NOT_FOUND, ABORTED, UNAVAILABLE and
    RESOURCE_EXHAUSTED make an actor try again later; INVALID_ARGUMENT and FAILED_PRECONDITION make it give up.
    """

    def describe(self) -> ActorSettings:
        """What an actor needs to build its environments."""

    def join(self, run_id: str, env_spec: EnvSpec, group_sizes: Sequence[int], peer: str) -> Lease:
        """Makes room for an actor's groups."""

    def open(self, session: str, group: int) -> tuple[GroupLease, EnvSpec]:
        """A group's stream begins; its environments and their spec."""

    def step(self, lease: GroupLease, first: bool, output: EnvOutput, stream: ActorStream) -> None:
        """Takes the observations of a group of E environments.

        Args:
          lease: what `open` returned.
          first: whether this is the stream's first message.
          output: reward [E], done [E], observation [E, ...]: read-only. The observation may be looked at until the
            answer is given, the others for longer.
          stream: gets the actions, or a refusal, once.
        """

    def close(self, session: str, group: int, lease: GroupLease, reason: str) -> None:
        """A group's stream has ended. Called exactly once after each `open` that returned."""


class ActorServer:
    """Serves actors from `start` to `stop`, on a thread of its own."""

    def __init__(
        self,
        address: str,
        service: Service,
        *,
        security: ServerSecurity,
        max_message_bytes: int = 64 << 20,
        keepalive_seconds: float = 10.0,
    ):
        """
        Args:
          address: `host:port` (port 0: any that is free) or `unix:/path`.
          service: takes the calls.
          security: what callers must show.
          max_message_bytes: largest message that is read; groups whose steps are larger may not join.
          keepalive_seconds: a peer that has been silent for this long is asked for a sign of life, and is given up
            after as long again without one.

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
        options = [
            ("grpc.max_receive_message_length", max_message_bytes),
            ("grpc.so_reuseport", 0),  # otherwise two learners may share a port without noticing
            *methods.keepalive_options(keepalive_seconds),
        ]
        self._calls = CallServer(self._on_call, options)
        self._streams: set[ActorStream] = set()
        self._stopping = False
        self._all_streams_ended = threading.Event()
        self._handlers: dict[str, Callable[[IncomingCall], None]] = {
            methods.DESCRIBE: lambda call: call.listen(_Question(call, self._describe)),
            methods.JOIN: lambda call: call.listen(_Question(call, self._join)),
            methods.ACT: self._act,
        }

    def start(self) -> str:
        """Begins to serve.

        Returns:
          The address, with the port that was chosen.

        Raises:
          AddressError: the address can't be listened on; the server can't be used any more.
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
          grace: how long calls may take to end before they are cut, seconds.
        """
        if not self._calls.is_serving:
            return
        self._calls.post(self._end_streams)
        self._all_streams_ended.wait()
        self._calls.stop(grace)

    def _end_streams(self) -> None:
        self._stopping = True
        for stream in list(self._streams):
            stream.end(Refused(grpc.StatusCode.UNAVAILABLE, _STOPPING))
        self._all_streams_ended.set()

    def _on_call(self, call: IncomingCall) -> None:
        """Looks at a call's credentials before anything of it is read, then finds its handler."""
        refusal = self._security.refusal(call.metadata)
        if refusal is not None:
            call.finish(grpc.StatusCode.UNAUTHENTICATED, refusal)
        elif call.method not in self._handlers:
            call.finish(grpc.StatusCode.UNIMPLEMENTED, f"the learner has no method {call.method[:100]}")
        else:
            self._handlers[call.method](call)

    def _describe(self, request: bytes, peer: str) -> protobuf.Message:
        with reading():
            asked = messages.parse(pb.DescribeRequest, request)
            messages.check_version(learner=messages.PROTOCOL_VERSION, actor=asked.protocol_version)
        _log.debug("an actor on %s (%s) asks what to build", asked.client[:100], peer)
        return messages.describe_reply(self._service.describe())

    def _join(self, request: bytes, peer: str) -> protobuf.Message:
        with reading():
            run_id, env_spec, group_sizes = messages.read_join_request(messages.parse(pb.JoinRequest, request))
        largest = StepCodec(env_spec, max(group_sizes)).step_bytes
        if largest > self._max_message_bytes:
            raise Refused(
                grpc.StatusCode.INVALID_ARGUMENT,
                f"a step of {max(group_sizes)} environments is a message of {largest} bytes and the learner reads up "
                f"to {self._max_message_bytes}: make the groups smaller",
            )
        return messages.join_reply(self._service.join(run_id, env_spec, group_sizes, peer), env_spec)

    def _act(self, call: IncomingCall) -> None:
        try:
            with reading():
                session, group = methods.membership(call.metadata)
            if self._stopping:
                raise Refused(grpc.StatusCode.UNAVAILABLE, _STOPPING)
            lease, env_spec = self._service.open(session, group)
        except Exception as error:
            self.stats.streams_refused += not self._stopping
            refuse(call, error)
            return
        self.stats.streams_opened += 1
        self.stats.streams += 1

        def on_end(stream: ActorStream, reason: str, refused: bool) -> None:
            self._streams.discard(stream)
            self.stats.streams -= 1
            self.stats.streams_refused += refused and not self._stopping
            self._service.close(session, group, lease, reason)

        codec = StepCodec(env_spec, len(lease.env_ids))
        memory = _shared_memory(call, codec)
        stream = ActorStream(call, lease, codec, memory, self._service.step, on_end, self.stats, self._calls.post)
        self._streams.add(stream)
        call.listen(stream, methods.memory_metadata("shared") if memory else ())


class _Question:
    """A call with one request and one reply; both are bytes here, so that parsing fails in our words."""

    def __init__(self, call: IncomingCall, answer: Callable[[bytes, str], protobuf.Message]):
        self._call = call
        self._answer = answer

    def received(self, message: bytes | None) -> None:
        """The request."""
        try:
            if message is None:
                raise Refused(grpc.StatusCode.INVALID_ARGUMENT, "expected a request, got none")
            reply = self._answer(message, self._call.peer).SerializeToString()
        except Exception as error:
            refuse(self._call, error)
        else:
            self._call.finish(grpc.StatusCode.OK, message=reply)

    def vanished(self) -> None:
        """Nobody waits for the answer."""


def _shared_memory(call: IncomingCall, codec: StepCodec) -> memoryview | None:
    """The memory that the actor offers for its steps, if it does and this process can open it."""
    offer = methods.memory(call.metadata)
    if not offer:
        return None
    try:
        return open_offered(offer, codec.payload_bytes)
    except SharedMemoryError as error:
        _log.info("%s offers to share memory, but %s: its steps come on the wire", call.peer, error)
        return None
