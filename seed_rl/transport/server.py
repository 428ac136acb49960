"""The learner's side: serves actors' calls on one event-loop thread and hands their steps to a `Service`."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import logging
import threading
from collections.abc import Callable, Coroutine, Iterator, Sequence
from typing import Any, Protocol, TypeVar

import grpc
import grpc.aio
import numpy as np
from google.protobuf import message as protobuf

from seed_rl.specs import ActorSettings, EnvSpec, GroupLease, Lease
from seed_rl.transport import address as addresses
from seed_rl.transport import messages, methods
from seed_rl.transport import seed_rl_pb2 as pb
from seed_rl.transport.codec import StepCodec, WireError
from seed_rl.transport.credentials import ServerSecurity
from seed_rl.types import EnvOutput

_log = logging.getLogger(__name__)

_T = TypeVar("_T")
_MAX_SENTENCE = 1000  # characters; a status travels in headers, whose size is limited
_STOPPING = "the learner is stopping"


class Refused(Exception):
    """Ends a call with a status and one sentence for the person who started the actor."""

    def __init__(self, code: grpc.StatusCode, sentence: str):
        super().__init__(sentence)
        self.code = code
        self.sentence = sentence


class Service(Protocol):
    """What the server serves. Every method is called on the event-loop thread and must return at once.

    `join`, `open` and `step` (also through its future) may raise `Refused`. NOT_FOUND, ABORTED, UNAVAILABLE and
    RESOURCE_EXHAUSTED make an actor try again later; INVALID_ARGUMENT and FAILED_PRECONDITION make it give up.
    """

    def describe(self) -> ActorSettings:
        """What an actor needs to build its environments."""

    def join(self, run_id: str, env_spec: EnvSpec, group_sizes: Sequence[int], peer: str) -> Lease:
        """Makes room for an actor's groups."""

    def open(self, session: str, group: int) -> tuple[GroupLease, EnvSpec]:
        """A group's stream begins; its environments and their spec."""

    def step(self, lease: GroupLease, first: bool, output: EnvOutput) -> asyncio.Future[np.ndarray]:
        """Takes the observations of a group of E environments.

        Args:
          lease: what `open` returned.
          first: whether this is the stream's first message.
          output: reward [E], done [E], observation [E, ...]: read-only views that may be kept.

        Returns:
          A future of this loop for the actions, [E, ...]. It is cancelled if the stream ends before, so whoever
          resolves it looks at `done()` first.
        """

    def close(self, session: str, group: int, lease: GroupLease, reason: str) -> None:
        """A group's stream has ended. Called exactly once after each `open` that returned."""


@dataclasses.dataclass
class ServerStats:
    """What the server has done since it started. Only its thread writes; anyone may read, without a lock."""

    streams: int = 0
    """Streams that are open now."""
    streams_opened: int = 0
    streams_refused: int = 0
    """Streams that didn't begin, or ended early, by the learner's decision."""
    steps: int = 0
    """Messages answered, each a step of one group."""
    bytes_received: int = 0
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
        self._options = [
            ("grpc.max_receive_message_length", max_message_bytes),
            ("grpc.so_reuseport", 0),  # otherwise two learners may share a port without noticing
            *methods.keepalive_options(keepalive_seconds),
        ]
        self._tasks: set[asyncio.Task[Any]] = set()  # one of each open stream
        self._stopping = False
        self._loop: asyncio.AbstractEventLoop
        self._thread = threading.Thread(target=self._run_loop, name="actor-server", daemon=True)

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The event loop of the server's thread, from `start` on; for `call_soon_threadsafe`."""
        return self._loop

    def start(self) -> str:
        """Begins to serve.

        Returns:
          The address, with the port that was chosen.

        Raises:
          AddressError: the address can't be listened on; the server can't be used any more.
        """
        self._loop = asyncio.new_event_loop()
        self._thread.start()
        try:
            self._address = self._wait(self._start())
        except BaseException:
            self._end_loop()
            raise
        return str(self._address)

    def stop(self, grace: float) -> None:
        """Ends all streams with UNAVAILABLE, so that actors come back later, then the thread. May be called twice.

        Args:
          grace: how long calls may take to end before they are cut, seconds.
        """
        if not self._thread.is_alive():
            return
        self._wait(self._stop(grace))
        self._end_loop()

    def _wait(self, work: Coroutine[Any, Any, _T]) -> _T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def _run_loop(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()
        self._loop.close()

    def _end_loop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    async def _start(self) -> addresses.Address:
        if self._address.path:
            addresses.clear_stale_socket(self._address.path)
        self._server = grpc.aio.server(options=self._options)
        self._server.add_generic_rpc_handlers((_Door(self._security, self._handlers()),))
        try:
            if self._credentials is None:
                port = self._server.add_insecure_port(str(self._address))
            else:
                port = self._server.add_secure_port(str(self._address), self._credentials)
        except RuntimeError as error:
            raise addresses.explain_bind_failure(self._address) from error
        await self._server.start()
        return self._address if self._address.path else dataclasses.replace(self._address, port=port)

    async def _stop(self, grace: float) -> None:
        self._stopping = True
        for task in self._tasks:
            task.cancel()
        await self._server.stop(grace)

    def _handlers(self) -> dict[str, grpc.RpcMethodHandler]:
        return {
            methods.DESCRIBE: grpc.unary_unary_rpc_method_handler(_unary(self._describe)),
            methods.JOIN: grpc.unary_unary_rpc_method_handler(_unary(self._join)),
            methods.ACT: grpc.stream_stream_rpc_method_handler(self._act),
        }

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

    async def _act(self, _: object, context: grpc.aio.ServicerContext) -> None:
        try:
            with _reading():
                session, group = methods.membership(context.invocation_metadata() or ())
            if self._stopping:
                raise Refused(grpc.StatusCode.UNAVAILABLE, _STOPPING)
            lease, env_spec = self._service.open(session, group)
        except Exception as error:
            failure: Exception | None = error
        else:
            failure = await self._stream(context, session, group, lease, env_spec)
        if failure is not None:
            self.stats.streams_refused += not self._stopping
            await _abort(context, failure)

    async def _stream(
        self, context: grpc.aio.ServicerContext, session: str, group: int, lease: GroupLease, env_spec: EnvSpec
    ) -> Exception | None:
        """Serves an open stream to its end and closes it; returns why the learner ends it, if it does."""
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self.stats.streams_opened += 1
        self.stats.streams += 1
        reason = "the actor vanished"
        try:
            await self._converse(context, lease, StepCodec(env_spec, len(lease.env_ids)))
            reason = "the actor left"
            return None
        except asyncio.CancelledError:
            if not self._stopping:
                raise
            reason = _STOPPING
            return Refused(grpc.StatusCode.UNAVAILABLE, _STOPPING)
        except grpc.aio.InternalError:  # the reply found nobody
            raise
        except Exception as error:
            reason = str(error)
            return error
        finally:
            self._tasks.discard(task)
            self.stats.streams -= 1
            # Before the status is sent: whoever reads it may open the group again at once.
            self._service.close(session, group, lease, reason)

    async def _converse(self, context: grpc.aio.ServicerContext, lease: GroupLease, codec: StepCodec) -> None:
        """Answers each message of a stream in turn, until the actor closes it."""
        stats, step = self.stats, self._service.step
        first = True
        while (message := await context.read()) is not grpc.aio.EOF:
            stats.bytes_received += len(message)
            try:
                output = codec.decode_step(message)
            except WireError as error:
                raise Refused(grpc.StatusCode.INVALID_ARGUMENT, str(error)) from error
            reply = codec.encode_actions(await step(lease, first, output))
            first = False
            stats.steps += 1
            stats.bytes_sent += len(reply)
            await context.write(reply)


class _Door(grpc.GenericRpcHandler):
    """Looks at a call's credentials before anything of it is read, then finds its handler."""

    def __init__(self, security: ServerSecurity, handlers: dict[str, grpc.RpcMethodHandler]):
        self._security = security
        self._handlers = handlers

    def service(self, details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler | None:
        refusal = self._security.refusal(details.invocation_metadata)
        if refusal is None:
            return self._handlers.get(details.method)

        async def refuse(_: object, context: grpc.aio.ServicerContext) -> None:
            await context.abort(grpc.StatusCode.UNAUTHENTICATED, refusal)

        return grpc.stream_stream_rpc_method_handler(refuse)


def _unary(answer: Callable[[bytes, str], protobuf.Message]) -> Callable[..., Coroutine[Any, Any, bytes | None]]:
    """A handler of a call with one request and one reply; gRPC passes bytes, so that parsing fails in our words."""

    async def handle(request: bytes, context: grpc.aio.ServicerContext) -> bytes | None:
        try:
            return answer(request, context.peer()).SerializeToString()
        except Exception as error:
            await _abort(context, error)
            return None

    return handle


@contextlib.contextmanager
def _reading() -> Iterator[None]:
    """What the peer sent is its fault; a WireError anywhere else is ours."""
    try:
        yield
    except messages.VersionMismatch as error:
        raise Refused(grpc.StatusCode.FAILED_PRECONDITION, str(error)) from error
    except WireError as error:
        raise Refused(grpc.StatusCode.INVALID_ARGUMENT, str(error)) from error


async def _abort(context: grpc.aio.ServicerContext, error: Exception) -> None:
    """Ends a call with the status that fits the error."""
    if not isinstance(error, Refused):
        _log.error("a call of %s failed in the learner", context.peer(), exc_info=error)
        error = Refused(grpc.StatusCode.INTERNAL, f"the learner failed: {error!r}")
    await context.abort(error.code, error.sentence[:_MAX_SENTENCE])
