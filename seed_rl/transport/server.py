"""The learner's side: serves actors on one thread and passes their steps to a `Service`."""

import dataclasses
import functools
import logging
import os
import resource
import threading
import time
from collections.abc import Callable

from seed_rl.specs import ActorSettings
from seed_rl.system.host_memory import reuse_freed_blocks
from seed_rl.transport import address as addresses
from seed_rl.transport import messages, protocol
from seed_rl.transport.calls import CallServer, IncomingCall
from seed_rl.transport.codec import StepCodec
from seed_rl.transport.credentials import ServerSecurity
from seed_rl.transport.limits import Allowance, HostLog
from seed_rl.transport.protocol import Refusal, Refused, reading
from seed_rl.transport.streams import ActorStream, Service

_log = logging.getLogger(__name__)

SILENCE_SECONDS = 1800.0
"""Time without a step after which a stream is ended; some environments take minutes to reset."""

_STOPPING = "the learner is stopping"
_MAX_CONNECTIONS = 16_384
_MAX_UNANSWERED = 64  # calls that haven't sent their request yet; each may take the memory of a message
_REFUSED_JOINS = 10  # per host and second; further ones aren't read


class ActorServer:
    """Serves actors from `start` to `stop`, on its own thread."""

    def __init__(
        self, address: str, settings: ActorSettings, *, security: ServerSecurity, max_message_bytes: int = 64 << 20
    ):
        """The address is `host:port` (port 0: any free one) or `unix:/path`; groups with larger steps may not join.

        Raises AddressError, and SecurityError if `security` isn't enough for the address.
        """
        self.service: Service | None = None
        """Answers joins and steps, once the learner has loaded."""
        self.is_over = False
        """Whether the run is over; actors that call then end."""
        self.streams: set[ActorStream] = set()
        """The open streams, which the server's thread changes; any thread may count them."""
        self._settings = settings
        self._address = addresses.parse_address(address)
        security.check(self._address)
        self._security = security
        self._max_message_bytes = max_message_bytes
        # The rest of the files that this process may open is for itself.
        self._max_connections = min(_MAX_CONNECTIONS, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 2)
        most = max_message_bytes + messages.MAX_REQUEST_BYTES  # for numbers about episodes
        options = protocol.server_options(most, self._max_connections)
        self._calls = CallServer(self._on_call, options)
        self._calls.loop.call_later(1.0, self._watch)
        self._refused_joins = Allowance(_REFUSED_JOINS, seconds=1.0)
        self._strangers = HostLog(_log, lines=1)
        self._crowds = Allowance(1, seconds=60.0)
        self._unanswered: dict[IncomingCall, None] = {}  # the oldest first
        self._answers = {protocol.DESCRIBE: self._describe, protocol.JOIN: self._join}
        self._stopping = threading.Event()  # set once all streams have ended; no more may begin

    def start(self) -> str:
        """Start serving; return the address, with the chosen port, or raise AddressError and be of no more use."""
        addresses.check_free(self._address)
        reuse_freed_blocks()  # each message is one
        port = self._calls.start(self._address.uri, self._security.credentials())
        if not port:
            raise addresses.AddressError(f"cannot listen on {self._address}: gRPC could not bind it")
        if not self._address.path:
            self._address = dataclasses.replace(self._address, port=port)
        return str(self._address)

    def stop(self, grace: float, over: bool = False) -> None:
        """End all streams, then the thread, with `grace` seconds for calls to end. May be called twice.

        If the run is `over`, actors are told so and end; otherwise they come back later.
        """
        self.is_over = self.is_over or over
        if self._calls.is_serving:
            self._calls.post(functools.partial(self._end_streams, over))
            self._stopping.wait(grace)
            self._calls.stop(grace)

    def _end_streams(self, over: bool) -> None:
        for stream in list(self.streams):
            stream.end(None if over else Refused(Refusal.UNAVAILABLE, _STOPPING))
        self._stopping.set()

    def _watch(self) -> None:
        """End streams that have been silent for too long, and warn when connections use up the open files."""
        self._calls.loop.call_later(1.0, self._watch)
        latest = time.monotonic() - SILENCE_SECONDS
        error = Refused(Refusal.NOT_FOUND, f"there was no step for {SILENCE_SECONDS:g} s: join again")
        for stream in [stream for stream in self.streams if stream.silent_since < latest]:
            stream.end(error)
        try:
            is_crowded = len(os.listdir("/dev/fd")) > self._max_connections
        except OSError:  # no descriptor left to look with
            is_crowded = True
        if is_crowded and self._crowds.take("") is not None:
            most = f"{self._max_connections} connections are open, the maximum (at most half of `ulimit -n`)"
            _log.warning("%s: further ones are closed until some end", most)

    def _on_call(self, call: IncomingCall) -> bool:
        """Check a call's token before reading any message, then its method."""
        try:
            self._security.check_token(call.metadata)
            if call.method == protocol.ACT:
                self._act(call)
            elif call.method in self._answers:
                self._await_request(call, self._answers[call.method])
            else:
                raise Refused(Refusal.UNIMPLEMENTED, f"the learner has no method {call.method[:100]}")
        except Exception as error:
            if isinstance(error, Refused) and error.refusal is Refusal.UNAUTHENTICATED:
                self._strangers.write(logging.WARNING, call.peer, f"{call.peer} was refused: {error}")
            call.refuse(error)
            return False
        return True

    def _await_request(self, call: IncomingCall, answer: Callable[[bytes, str], bytes]) -> None:
        self._unanswered[call] = None
        call.listen(functools.partial(self._reply, call, answer), functools.partial(self._unanswered.pop, call))
        if len(self._unanswered) > _MAX_UNANSWERED:
            self._unanswered.pop(oldest := next(iter(self._unanswered)))
            oldest.refuse(Refused(Refusal.RESOURCE_EXHAUSTED, f"{_MAX_UNANSWERED} newer calls are waiting"))

    def _reply(self, call: IncomingCall, answer: Callable[[bytes, str], bytes], request: bytes | None) -> None:
        """Answer a call's only request, given as bytes so that a malformed one is refused with a reason."""
        del self._unanswered[call]
        try:
            if request is None:
                raise Refused(Refusal.INVALID_ARGUMENT, "expected a request, got none")
            call.finish(answer(request, call.peer))
        except Exception as error:
            call.refuse(error)

    def _describe(self, request: bytes, peer: str) -> bytes:
        self._refuse_if_over()
        with reading():
            client = messages.read_describe_request(request)
        _log.debug("an actor on %s (%s) asks which environments to build", client[:100], peer)
        return messages.describe_reply(self._settings)

    def _join(self, request: bytes, peer: str) -> bytes:
        if self._refused_joins.is_spent(peer):
            sentence = f"{_REFUSED_JOINS} joins from this host were refused within a second: try again later"
            raise Refused(Refusal.RESOURCE_EXHAUSTED, sentence)
        try:
            with reading():
                run_id, env_spec, group_sizes = messages.read_join_request(request)
            largest = StepCodec(env_spec, max(group_sizes)).step_bytes
            if largest > self._max_message_bytes:
                step = f"a step of {max(group_sizes)} environments is a message of {largest} bytes"
                sentence = f"{step} and the learner reads up to {self._max_message_bytes}: make the groups smaller"
                raise Refused(Refusal.INVALID_ARGUMENT, sentence)
            return messages.join_reply(self._loaded().join(run_id, env_spec, group_sizes, peer))
        except Exception as error:
            if not (isinstance(error, Refused) and error.refusal is Refusal.UNAVAILABLE):  # for a moment only
                self._refused_joins.take(peer)
            raise

    def _act(self, call: IncomingCall) -> None:
        with reading():
            opening = protocol.Opening.read(call.metadata)
        if self._stopping.is_set():
            raise Refused(Refusal.UNAVAILABLE, _STOPPING)
        ActorStream(call, self._loaded(), opening, self.streams)

    def _refuse_if_over(self) -> None:
        if self.is_over:
            raise Refused(Refusal.ABORTED, Refusal.ABORTED.value)

    def _loaded(self) -> Service:
        self._refuse_if_over()
        if self.service is None:
            raise Refused(Refusal.UNAVAILABLE, "the learner is still loading")
        return self.service
