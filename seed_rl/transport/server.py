"""The learner's side: serves actors' calls on one thread and hands their steps to a `Service`."""

from __future__ import annotations

import dataclasses
import functools
import logging
import threading
from collections.abc import Callable

from seed_rl.transport import address as addresses
from seed_rl.transport import messages, methods
from seed_rl.transport.calls import CallServer, IncomingCall
from seed_rl.transport.codec import StepCodec
from seed_rl.transport.credentials import ServerSecurity
from seed_rl.transport.refusal import Refusal, Refused, reading
from seed_rl.transport.shared_memory import open_offered
from seed_rl.transport.stream import ActorStream, ServerStats, Service

_log = logging.getLogger(__name__)

_STOPPING = "the learner is stopping"


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
          service: answers the calls.
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
          grace: seconds that calls may take to end before they are cut.
        """
        if not self._calls.is_serving:
            return
        self._calls.post(self._end_streams)
        self._all_streams_ended.wait()
        self._calls.stop(grace)

    def _end_streams(self) -> None:
        self._stopping = True
        for stream in list(self._streams):
            stream.end(Refused(Refusal.UNAVAILABLE, _STOPPING))
        self._all_streams_ended.set()

    def _on_call(self, call: IncomingCall) -> None:
        """Checks a call's credentials before anything of it is read, then its method."""
        try:
            self._security.check_token(call.metadata)
            if call.method == methods.DESCRIBE:
                call.listen(functools.partial(_reply, call, self._describe), _ignore)
            elif call.method == methods.JOIN:
                call.listen(functools.partial(_reply, call, self._join), _ignore)
            elif call.method == methods.ACT:
                self._act(call)
            else:
                raise Refused(Refusal.UNIMPLEMENTED, f"the learner has no method {call.method[:100]}")
        except Exception as error:
            call.refuse(error)

    def _describe(self, request: bytes, peer: str) -> bytes:
        with reading():
            client = messages.read_describe_request(request)
        _log.debug("an actor on %s (%s) asks what to build", client[:100], peer)
        return messages.describe_reply(self._service.describe())

    def _join(self, request: bytes, peer: str) -> bytes:
        with reading():
            run_id, env_spec, group_sizes = messages.read_join_request(request)
        largest = StepCodec(env_spec, max(group_sizes)).step_bytes
        if largest > self._max_message_bytes:
            raise Refused(
                Refusal.INVALID_ARGUMENT,
                f"a step of {max(group_sizes)} environments is a message of {largest} bytes and the learner reads up "
                f"to {self._max_message_bytes}: make the groups smaller",
            )
        return messages.join_reply(self._service.join(run_id, env_spec, group_sizes, peer), env_spec)

    def _act(self, call: IncomingCall) -> None:
        with reading():
            session, group = methods.membership(call.metadata)
        if self._stopping:
            raise Refused(Refusal.UNAVAILABLE, _STOPPING)
        lease, env_spec = self._service.open(session, group)

        def on_end(stream: ActorStream, reason: str) -> None:
            self._streams.discard(stream)
            self.stats.streams = len(self._streams)
            self._service.close(session, group, lease, reason)

        codec = StepCodec(env_spec, len(lease.env_ids))
        memory = _shared_memory(call, codec.payload_bytes)
        step = functools.partial(self._service.step, lease)
        stream = ActorStream(call, codec, memory, step, on_end, self.stats)
        self._streams.add(stream)
        self.stats.streams = len(self._streams)
        call.listen(stream.received, stream.vanished, methods.memory_metadata("shared") if memory else ())


def _reply(call: IncomingCall, answer: Callable[[bytes, str], bytes], request: bytes | None) -> None:
    """Answers a call of one request, given in bytes so that the refusal of a bad one says why."""
    try:
        if request is None:
            raise Refused(Refusal.INVALID_ARGUMENT, "expected a request, got none")
        call.finish(answer(request, call.peer))
    except Exception as error:
        call.refuse(error)


def _ignore() -> None:
    """Nobody waits for the answer any more."""


def _shared_memory(call: IncomingCall, num_bytes: int) -> memoryview | None:
    """The memory that the actor offers for its steps, if this process can open it."""
    offer = methods.memory(call.metadata)
    if not offer:
        return None
    try:
        return open_offered(offer, num_bytes)
    except OSError as error:
        _log.info("%s offers shared memory, but %s: its steps come over the wire", call.peer, error)
        return None
