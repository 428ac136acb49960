"""A server on gRPC's completion queue, polled by a single thread.

gRPC's own Python servers run each call in a thread or a coroutine, and spend more time on waking them than on carrying
messages. Underneath, both poll a queue of completed operations. Here one thread polls that queue directly and sends
every answer: other threads post answers and wake it once per batch. No other module uses this layer of grpcio.
"""

from __future__ import annotations

import collections
import heapq
import itertools
import logging
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any

import grpc
from grpc._cython import cygrpc  # type: ignore[attr-defined]

from seed_rl.transport.hosts import HostLog
from seed_rl.transport.protocol import Metadata, Refusal, Refused

_log = logging.getLogger(__name__)

_MAX_SENTENCE = 1000  # characters; the status travels in headers, whose size is limited
_POLL_SECONDS = 0.1  # longest wait for a function posted without a call
STUCK_SECONDS = 5.0
_SILENCE_SECONDS = 0.01  # after a peer's last message; if it vanished, gRPC says so within this time
_PAUSE_SECONDS = 0.002  # after an unwelcome call, so a flood of them takes a twentieth of the thread's time
_NO_FLAGS = 0
_LINES = 10  # in the log, per host and minute


class IncomingCall:
    """A peer's call, which must be listened to, finished or refused. Only `post` may be called on any thread."""

    def __init__(self, event: Any, server: CallServer):
        self.method: str = event.call_details.method.decode("ascii", "replace")
        self.metadata: Metadata = event.invocation_metadata
        self.is_over = False
        """Whether the call was finished or refused, or the peer vanished."""
        self._server = server
        self._call = event.call
        self._listening = False
        self._received: Callable[[bytes | None], None]
        self._vanished: Callable[[], None]

    @property
    def peer(self) -> str:
        """The peer's address in gRPC's notation."""
        return self._call.peer().decode(errors="replace")  # type: ignore[no-any-return]

    def report(self, level: int, sentence: str, error: Exception | None = None) -> None:
        """Log the peer's address followed by a sentence, unless its host has used up this minute's lines."""
        self._server.host_log.write(level, self.peer, f"{self.peer} {sentence}", error)

    def listen(
        self,
        received: Callable[[bytes | None], None],
        vanished: Callable[[], None],
        metadata: Metadata = (),
    ) -> None:
        """Accept the call and ask for its first message.

        Args:
          received: called with each message, and with None once the peer has sent its last; must return at once.
          vanished: called if the peer or the network ends the call; never after `finish` or `refuse`.
          metadata: sent to the peer immediately.
        """
        self._received, self._vanished = received, vanished
        self._listening = True
        self._call.start_server_batch((cygrpc.ReceiveCloseOnServerOperation(_NO_FLAGS),), self._on_close)
        accept = cygrpc.SendInitialMetadataOperation(tuple(metadata) or None, _NO_FLAGS)
        self._call.start_server_batch((accept, cygrpc.ReceiveMessageOperation(_NO_FLAGS)), self._on_message)

    def send(self, message: bytes) -> None:
        """Send an answer and ask for the next message, as one operation; do nothing if the call is over."""
        operations = (cygrpc.SendMessageOperation(message, _NO_FLAGS), cygrpc.ReceiveMessageOperation(_NO_FLAGS))
        if not self.is_over:
            self._call.start_server_batch(operations, self._on_message)

    def post(self, function: Callable[[], None]) -> None:
        """Run a function on the server's thread, soon. May be called on any thread."""
        self._server.post(function, self._call)

    def finish(self, message: bytes | None = None) -> None:
        """End the call successfully, optionally with a last message; do nothing if it is over."""
        self._end(grpc.StatusCode.OK, "", message)

    def refuse(self, error: Exception) -> None:
        """End the call with the status and sentence of a `Refused`; log any other error as a failure of the learner."""
        if not isinstance(error, Refused):
            self.report(logging.ERROR, "made a call that failed in the learner", error)
            error = Refused(Refusal.INTERNAL, f"the learner failed: {error!r}")
        self._end(grpc.StatusCode[error.refusal.name], str(error)[:_MAX_SENTENCE])

    def _end(self, code: grpc.StatusCode, sentence: str, message: bytes | None = None) -> None:
        status = cygrpc.SendStatusFromServerOperation(None, code.value[0], sentence.encode(errors="replace"), _NO_FLAGS)
        operations = [] if message is None else [cygrpc.SendMessageOperation(message, _NO_FLAGS)]
        if not self._listening:
            operations.append(cygrpc.ReceiveCloseOnServerOperation(_NO_FLAGS))
            operations.append(cygrpc.SendInitialMetadataOperation(None, _NO_FLAGS))
        if not self.is_over:
            self._forget()
            self._call.start_server_batch((*operations, status), _ignore)

    def _on_message(self, event: Any) -> None:
        if not event.success or self.is_over:  # without success, `_on_close` follows
            return
        message = event.batch_operations[-1].message()
        if message is None:  # a vanishing peer falls silent first, too
            self._server.call_later(_SILENCE_SECONDS, self._on_silence)
        else:
            self._received(message)

    def _on_silence(self) -> None:
        if not self.is_over:
            self._received(None)

    def _on_close(self, event: Any) -> None:
        if not self.is_over:
            vanished = self._vanished
            self._forget()
            vanished()

    def _forget(self) -> None:
        """Drop all references: gRPC counts a call as open while anything refers to it, even a cycle."""
        self.is_over = True
        self._received = self._vanished = _ignore


def _ignore(*_: object) -> None:
    """Handle an event that needs no action."""


class CallServer:
    """Accepts calls on one address, on one thread."""

    def __init__(self, on_call: Callable[[IncomingCall], bool], options: Iterable[tuple[str, int]]):
        """
        Args:
          on_call: called on the server's thread with each new call; must return at once. If it returns False, the
            next call has to wait for a moment.
          options: gRPC options by name.
        """
        self.host_log = HostLog(_log, _LINES)
        self._on_call = on_call
        self._queue = cygrpc.CompletionQueue()
        self._server = cygrpc.Server(tuple(options), False)
        self._server.register_completion_queue(self._queue)
        self._posted: collections.deque[Callable[[], None]] = collections.deque()
        self._is_woken = False  # whether an event is on its way, after which the posted functions run
        self._queue_open = True
        self._waking = threading.Lock()  # starting an operation on a closed queue aborts the process
        self._timers: list[tuple[float, int, Callable[[], None]]] = []  # a heap
        self._timers_made = itertools.count()
        self._stopping = False
        self._calls_ended = threading.Event()
        self._thread = threading.Thread(target=self._poll, name="actor-server", daemon=True)

    @property
    def is_serving(self) -> bool:
        """Whether the server has been started and not stopped."""
        return self._thread.is_alive()

    def start(self, address: str, credentials: grpc.ServerCredentials | None) -> int:
        """Start accepting calls at `host:port` or `unix:/path`, with TLS if there are credentials.

        Returns:
          The port, or an arbitrary positive number for a path; 0 if the address can't be bound.
        """
        secure = () if credentials is None else (credentials._credentials,)  # type: ignore[attr-defined]
        port = self._server.add_http2_port(address.encode(), *secure)
        if port:
            self._server.start()
            self._request_call()
            self._thread.start()
        return port

    def call_later(self, seconds: float, function: Callable[[], None]) -> None:
        """Run a function on the server's thread after a delay. Must be called on that thread, or before `start`."""
        heapq.heappush(self._timers, (time.monotonic() + seconds, next(self._timers_made), function))

    def post(self, function: Callable[[], None], call: cygrpc.Call | None = None) -> None:
        """Run a function on the server's thread: at once, or within a tenth of a second if no call is given.

        May be called on any thread. Which of the server's calls is given doesn't matter: it wakes the thread.
        """
        self._posted.append(function)
        if call is not None and not self._is_woken:
            with self._waking:
                if self._queue_open:
                    self._is_woken = True
                    call.start_server_batch((), _ignore)  # completes immediately

    def stop(self, grace: float) -> None:
        """Refuse new calls, give open ones `grace` seconds to end, then cancel them and end the thread.

        A stuck thread is abandoned after `STUCK_SECONDS`, so that the learner can exit.
        """
        self._stopping = True
        self._server.shutdown(self._queue, lambda _: self._calls_ended.set())
        if not self._calls_ended.wait(grace):
            self._server.cancel_all_calls()
            self._calls_ended.wait(STUCK_SECONDS)
        with self._waking:
            self._queue_open = False
            self._queue.shutdown()
        self._thread.join(STUCK_SECONDS)
        if self._thread.is_alive():
            _log.error("the server's thread is stuck and has been abandoned")
        else:
            self._server.destroy()

    def _poll(self) -> None:
        now = time.monotonic()
        while True:
            wait = max(0.0, min(_POLL_SECONDS, self._timers[0][0] - now if self._timers else _POLL_SECONDS))
            event = self._queue.poll(time.time() + wait)
            if event.completion_type == cygrpc.CompletionType.queue_shutdown:
                return
            self._is_woken = False
            while self._posted:
                self._run(self._posted.popleft())
            now = time.monotonic()
            while self._timers and self._timers[0][0] <= now:
                self._run(heapq.heappop(self._timers)[2])
            if event.completion_type != cygrpc.CompletionType.queue_timeout:
                self._run(event.tag, event)
            event = None  # frees the message before the next one comes

    def _request_call(self) -> None:
        if not self._stopping:
            self._server.request_call(self._queue, self._queue, self._on_request)

    def _on_request(self, event: Any) -> None:
        if not event.success:  # the server is shutting down
            return
        call = IncomingCall(event, self)
        welcome = False
        try:
            welcome = self._on_call(call)
        finally:
            if welcome:
                self._request_call()
            else:
                self.call_later(_PAUSE_SECONDS, self._request_call)

    def _run(self, function: Callable[..., None], *arguments: object) -> None:
        try:
            function(*arguments)
        except Exception as error:  # a fault in one call must not end the others
            self.host_log.write(logging.ERROR, "", f"the server failed in {function}", error)
