"""The learner's side: serves actors' calls on one thread and hands their steps to a `Service`."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

import grpc
import numpy as np
from google.protobuf import message as protobuf

from seed_rl.specs import ActorSettings, EnvSpec, GroupLease, Lease
from seed_rl.transport import address as addresses
from seed_rl.transport import messages, methods
from seed_rl.transport import seed_rl_pb2 as pb
from seed_rl.transport.calls import CallServer, IncomingCall
from seed_rl.transport.codec import StepCodec, WireError
from seed_rl.transport.credentials import ServerSecurity
from seed_rl.transport.shared_memory import SharedMemoryError, open_offered
from seed_rl.types import EnvOutput

_log = logging.getLogger(__name__)

_MAX_SENTENCE = 1000  # characters; a status travels in headers, whose size is limited
_STOPPING = "the learner is stopping"


class Refused(Exception):
    """Ends a call with a status and one sentence for the person who started the actor."""

    def __init__(self, code: grpc.StatusCode, sentence: str):
        super().__init__(sentence)
        self.code = code
        self.sentence = sentence


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
            methods.DESCRIBE: lambda call: self._answer_with(self._describe, call),
            methods.JOIN: lambda call: self._answer_with(self._join, call),
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

    def _answer_with(self, answer: Callable[[bytes, str], protobuf.Message], call: IncomingCall) -> None:
        call.listen(_Question(call, answer))

    def _describe(self, request: bytes, peer: str) -> protobuf.Message:
        with _reading():
            asked = messages.parse(pb.DescribeRequest, request)
            messages.check_version(learner=messages.PROTOCOL_VERSION, actor=asked.protocol_version)
        _log.debug("an actor on %s (%s) asks what to build", asked.client[:100], peer)
        return messages.describe_reply(self._service.describe())

    def _join(self, request: bytes, peer: str) -> protobuf.Message:
        with _reading():
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
            with _reading():
                session, group = methods.membership(call.metadata)
            if self._stopping:
                raise Refused(grpc.StatusCode.UNAVAILABLE, _STOPPING)
            lease, env_spec = self._service.open(session, group)
        except Exception as error:
            self.stats.streams_refused += not self._stopping
            _refuse(call, error)
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
            with _reading():
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
            _refuse(self._call, error)

    def _close(self, reason: str, refused: bool) -> None:
        if not self._ended:
            self._ended = True
            self._shared = None  # the actor's memory is freed as soon as nobody looks at it
            self._on_end(self, reason, refused)


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
            _refuse(self._call, error)
        else:
            self._call.finish(grpc.StatusCode.OK, message=reply)

    def vanished(self) -> None:
        """Nobody waits for the answer."""


@contextlib.contextmanager
def _reading() -> Iterator[None]:
    """What the peer sent is its fault; a WireError anywhere else is ours."""
    try:
        yield
    except messages.VersionMismatch as error:
        raise Refused(grpc.StatusCode.FAILED_PRECONDITION, str(error)) from error
    except WireError as error:
        raise Refused(grpc.StatusCode.INVALID_ARGUMENT, str(error)) from error


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


def _refuse(call: IncomingCall, error: Exception) -> None:
    """Ends a call with the status that fits the error."""
    if not isinstance(error, Refused):
        _log.error("a call of %s failed in the learner", call.peer, exc_info=error)
        error = Refused(grpc.StatusCode.INTERNAL, f"the learner failed: {error!r}")
    call.finish(error.code, error.sentence[:_MAX_SENTENCE])
