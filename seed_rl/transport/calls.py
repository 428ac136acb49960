"""Calls of a gRPC server whose messages are read and answered on one thread, by callbacks instead of coroutines."""

from __future__ import annotations

import asyncio
import collections
import concurrent.futures
import contextlib
import functools
import logging
import threading
from collections.abc import Callable, Iterable
from typing import Any

import grpc
from grpc import aio

from seed_rl.transport.limits import HostLog
from seed_rl.transport.protocol import Metadata, Refusal, Refused

_log = logging.getLogger(__name__)

_MAX_SENTENCE = 1000  # characters; the status travels in headers, whose size is limited
STUCK_SECONDS = 5.0
_SILENCE_SECONDS = 0.01  # after a peer's last message; if it vanished, gRPC cancels the call within this time
_PAUSE_SECONDS = 0.002  # between unwelcome calls, of which a flood then has 500 answered per second
_LINES = 10  # in the log, per host and minute


class IncomingCall:
    """A peer's call, which must be listened to, finished or refused. Only `post` may be called on any thread."""

    def __init__(self, method: str, context: Any, server: CallServer):
        self.method = method
        self.metadata: Metadata = context.invocation_metadata()
        self.peer: str = context.peer()
        """The peer's address in gRPC's notation."""
        self.is_over = False
        """Whether the call was finished or refused, or the peer vanished."""
        self.post = server.post
        self._server = server
        self._context = context
        self._task: Any = asyncio.current_task()
        self._is_reading = False
        self._answer: asyncio.Future[bytes | None] | None = None
        self._initial_metadata: Metadata = ()
        self._received: Callable[[bytes | None], None] = _ignore
        self._vanished: Callable[[], None] = _ignore

    def report(self, level: int, sentence: str, error: Exception | None = None) -> None:
        """Log the peer's address and a message, unless its host has used up this minute's lines."""
        self._server.host_log.write(level, self.peer, f"{self.peer} {sentence}", error)

    def listen(
        self, received: Callable[[bytes | None], None], vanished: Callable[[], None], metadata: Metadata = ()
    ) -> None:
        """Accept the call, send the peer metadata, and ask for its first message.

        `received` is called with each message, and with None once the peer has sent its last; it must return at once.
        `vanished` is called if the peer or the network ends the call, never after `finish` or `refuse`.
        """
        self._received, self._vanished, self._initial_metadata = received, vanished, metadata

    def send(self, message: bytes) -> None:
        """Send an answer, then ask for the next message; do nothing if the call is over."""
        if self._answer and not self._answer.done():
            self._answer.set_result(message)

    def finish(self, message: bytes | None = None) -> None:
        """End the call successfully, optionally with a last message; do nothing if it is over."""
        self._end(grpc.StatusCode.OK, "", message)

    def refuse(self, error: Exception) -> None:
        """End the call with the status and sentence of a `Refused`; log any other error as a failure of the learner."""
        if not isinstance(error, Refused):
            self.report(logging.ERROR, "made a call that failed in the learner", error)
            error = Refused(Refusal.INTERNAL, f"the learner failed: {error!r}")
        self._end(grpc.StatusCode[error.refusal.name], str(error)[:_MAX_SENTENCE])

    def _end(self, code: grpc.StatusCode, sentence: str, last: bytes | None = None) -> None:
        if self.is_over:
            return
        self.is_over = True
        self._context.set_code(code)
        self._context.set_details(sentence)
        if self._is_reading:
            self._task.cancel()
        elif self._answer and not self._answer.done():
            self._answer.set_result(last)

    async def serve(self) -> None:
        """Exchange messages until the call is over."""
        try:
            await self._exchange()
        except (asyncio.CancelledError, aio.BaseError) as error:
            if not self.is_over:
                self.is_over = True
                self._vanished()
                raise asyncio.CancelledError from error
            self._task.uncancel()  # `_end` had cancelled the read
        finally:
            self._received = self._vanished = _ignore  # gRPC counts a call as open while anything refers to it

    async def _exchange(self) -> None:
        if not self.is_over:
            await self._context.send_initial_metadata(tuple(self._initial_metadata))
        while not self.is_over:
            self._is_reading = True
            message = await self._context.read()
            if message is aio.EOF:  # a vanishing peer falls silent first, too
                await asyncio.sleep(_SILENCE_SECONDS)
                message = None
            self._is_reading = False
            self._answer = self._server.loop.create_future()
            try:
                self._received(message)
            except Exception as error:
                self.refuse(error)
            message = None  # frees it before the next one comes
            if (answer := await self._answer) is not None:
                await self._context.write(answer)


def _ignore(*_: object) -> None:
    """Do nothing."""


class CallServer(grpc.GenericRpcHandler):  # type: ignore[misc]
    """Accepts calls on one address, on one thread."""

    def __init__(self, on_call: Callable[[IncomingCall], bool], options: Iterable[tuple[str, int]]):
        """`on_call` gets each new call, on the server's thread; if it returns False, it has refused the call."""
        self.host_log = HostLog(_log, _LINES)
        self.loop = asyncio.new_event_loop()
        self._on_call = on_call
        self._options = tuple(options)
        self._server: Any = None
        self._posted: collections.deque[Callable[[], None]] = collections.deque()
        self._is_woken = False  # whether the posted functions will run
        self._stopping = asyncio.Event()
        self._turn = 0.0  # at which the next unwelcome call ends
        self._thread = threading.Thread(target=self.loop.run_forever, name="actor-server", daemon=True)

    @property
    def is_serving(self) -> bool:
        """Whether the server has been started and not stopped."""
        return self._thread.is_alive()

    def start(self, address: str, credentials: grpc.ServerCredentials | None) -> int:
        """Accept calls at an address; return its port, a positive number for a path, 0 if it can't be bound."""
        self._thread.start()
        port = asyncio.run_coroutine_threadsafe(self._start(address, credentials), self.loop).result()
        if not port:
            self._end_thread()
        return port

    def post(self, function: Callable[[], None]) -> None:
        """Run a function on the server's thread, soon. May be called on any thread."""
        self._posted.append(function)
        if not self._is_woken:
            self._is_woken = True
            with contextlib.suppress(RuntimeError):  # the loop is closed
                self.loop.call_soon_threadsafe(self._run_posted)

    def stop(self, grace: float) -> None:
        """Refuse new calls, give open ones `grace` seconds to end, then cancel them and end the thread."""
        stopped = asyncio.run_coroutine_threadsafe(self._stop(grace), self.loop)
        with contextlib.suppress(concurrent.futures.TimeoutError):
            stopped.result(grace + STUCK_SECONDS)
        self._end_thread()

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler:
        """Return gRPC's handler of a call, whatever its method."""
        return grpc.stream_stream_rpc_method_handler(functools.partial(self._serve, handler_call_details.method))

    async def _start(self, address: str, credentials: grpc.ServerCredentials | None) -> int:
        self._server = aio.server(handlers=(self,), options=self._options)
        with contextlib.suppress(RuntimeError):
            if credentials is None:
                port = self._server.add_insecure_port(address)
            else:
                port = self._server.add_secure_port(address, credentials)
            await self._server.start()
            return port
        return 0

    async def _stop(self, grace: float) -> None:
        self._stopping.set()
        await self._server.stop(grace)
        if rest := asyncio.all_tasks() - {asyncio.current_task()}:
            await asyncio.wait(rest, timeout=grace)

    async def _serve(self, method: str, _: object, context: Any) -> None:
        call = IncomingCall(method, context, self)
        if not self._on_call(call):
            await self._take_turn()
        await call.serve()

    async def _take_turn(self) -> None:
        """Wait, even if the peer has vanished: gRPC counts a call as open for so long, and bounds their number."""
        turn = self._turn = max(self._turn, self.loop.time()) + _PAUSE_SECONDS
        while (wait := turn - self.loop.time()) > 0 and not self._stopping.is_set():
            with contextlib.suppress(asyncio.CancelledError, TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), wait)

    def _run_posted(self) -> None:
        self._is_woken = False
        while self._posted:
            try:
                self._posted.popleft()()
            except Exception as error:
                self.host_log.write(logging.ERROR, "", "the server failed in a posted function", error)

    def _end_thread(self) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(STUCK_SECONDS)
        if self._thread.is_alive():
            _log.error("the server's thread is stuck and has been abandoned")
        else:
            self.loop.close()
