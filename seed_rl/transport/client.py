"""The actor's side: a synchronous client. Each group of environments has its own thread and stream."""

from __future__ import annotations

import functools
import logging
import queue
import socket
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import grpc
import numpy as np

from seed_rl.errors import Failure
from seed_rl.foreign import printable
from seed_rl.specs import ActorSettings, EnvSpec, Lease
from seed_rl.transport import messages, protocol
from seed_rl.transport.address import parse_address
from seed_rl.transport.codec import StepCodec
from seed_rl.transport.credentials import ClientSecurity
from seed_rl.transport.protocol import Refusal, WireError
from seed_rl.transport.shared_memory import OfferedMemory
from seed_rl.types import EnvOutput

_log = logging.getLogger(__name__)

_Reply = TypeVar("_Reply")

_FINAL = {grpc.StatusCode[refusal.name] for refusal in Refusal if refusal.is_final}
_RETRY_SECONDS = 0.1  # while a learner is starting
_CONNECT_MILLISECONDS = 5000  # for the peer to answer as a gRPC server does


class Disconnected(Failure):
    """There is no learner at the moment, or it doesn't know this session; the actor may retry after a back-off."""


class RunOver(Failure):
    """The learner's run has ended for good, and its actors end with it."""


class Rejected(Failure):
    """The learner refuses this actor for good (version, spaces, credentials, a bad message)."""


class LearnerClient:
    """A connection to one learner. Its methods may be called from any thread.

    They raise `Rejected` if the peer refuses this actor or isn't a learner, and `Disconnected` if no answer arrives in
    time, the learner is full, or this client is closed. After `Disconnected`, close the client, wait, and create a new
    one: an open client tries to reconnect twice a second.
    """

    def __init__(self, address: str, security: ClientSecurity, *, name: str | None = None, share_memory: bool = True):
        """The address is `host:port` or `unix:/path`, the name that in the learner's log, by default the host's.

        A learner on this machine may read steps from shared memory, unless it is told not to. Raises AddressError, and
        SecurityError if the token would cross a network in plain text.
        """
        self._learner = address
        target = parse_address(address)
        self._share_memory = share_memory and target.is_local
        security.check(target)
        self._name = name or socket.gethostname()
        self._metadata = security.metadata()
        options = [
            *protocol.keepalive_options(),
            ("grpc.initial_reconnect_backoff_ms", 100),
            ("grpc.min_reconnect_backoff_ms", _CONNECT_MILLISECONDS),  # despite its name, the time to connect
            ("grpc.max_reconnect_backoff_ms", 400),
            ("grpc.enable_http_proxy", int(security.proxy)),
            ("grpc.use_local_subchannel_pool", 1),  # a new client gets a new connection
            ("grpc.enable_retries", 0),  # a step must not be sent twice
        ]
        self._channel = security.channel(target.uri, options)

    def describe(self, timeout: float) -> ActorSettings:
        """Ask which environments to build. Waits up to `timeout` seconds for a learner that is still starting."""
        request = messages.describe_request(self._name)
        return self._call(protocol.DESCRIBE, request, messages.read_describe_reply, timeout)

    def join(self, run_id: str, env_spec: EnvSpec, group_sizes: Sequence[int], timeout: float) -> Lease:
        """Ask for room for groups of these sizes, within `timeout` seconds; `run_id` is random and new for each run."""
        request = messages.join_request(run_id, env_spec, group_sizes)
        read = functools.partial(messages.read_join_reply, group_sizes=group_sizes)
        return self._call(protocol.JOIN, request, read, timeout)

    def open(self, lease: Lease, group: int, env_spec: EnvSpec) -> ActStream:
        """Open the stream of `lease.groups[group]`. If the learner refuses it, the first step raises the error."""
        codec, memory = StepCodec(env_spec, len(lease.groups[group].env_ids)), None
        if self._share_memory:
            try:
                memory = OfferedMemory(codec.payload_bytes)
            except OSError as error:
                _log.debug("steps are sent as messages: %s", error)
        opening = protocol.Opening(lease.session, group, memory.offer if memory else "")
        requests: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        act: Any = self._channel.stream_stream(protocol.ACT)
        try:
            call = act(iter(requests.get, None), metadata=(*self._metadata, *opening.metadata()))
            # Waits for the learner's initial metadata, which precede its first message.
            if memory and protocol.MEMORY_ACCEPTED in (call.initial_metadata() or ()):
                codec = StepCodec(env_spec, codec.num_envs, memory=memory.step)
        except ValueError as error:
            raise Disconnected("the client is closed") from error
        finally:
            if memory:
                memory.close()
        return ActStream(call, requests, codec, self._learner)

    def close(self) -> None:
        """End all streams and calls; those that are waiting raise Disconnected. May be called twice."""
        self._channel.close()

    def _call(self, method: str, request: bytes, read: Callable[[bytes], _Reply], timeout: float) -> _Reply:
        """Retry until the learner can be reached; gRPC's own waiting wouldn't report why it can't."""
        call: Any = self._channel.unary_unary(method)
        deadline = time.monotonic() + timeout
        unreachable: Exception | None = None
        while True:
            try:
                reply = call(request, timeout=max(0.0, deadline - time.monotonic()), metadata=self._metadata)
            except grpc.RpcError as error:
                failure = _failure(error, self._learner)
                if isinstance(failure, Rejected):
                    raise failure from error
                if error.code() is not grpc.StatusCode.UNAVAILABLE or time.monotonic() + _RETRY_SECONDS > deadline:
                    raise unreachable or failure from error
                unreachable = failure
                time.sleep(_RETRY_SECONDS)
                continue
            except ValueError as error:
                raise Disconnected("the client is closed") from error
            try:
                return read(reply)
            except ValueError as error:
                raise Rejected(str(error)) from error


class ActStream:
    """A group's stream, from `LearnerClient.open`. Not thread-safe; `LearnerClient.close` ends a waiting step."""

    def __init__(self, call: Any, requests: queue.SimpleQueue[bytes | None], codec: StepCodec, learner: str):
        self._call = call  # a grpc.Call, grpc.Future and iterator of replies
        self._requests = requests  # sent by one of gRPC's threads; None ends the stream
        self._codec = codec
        self._learner = learner
        self._ended = threading.Event()
        call.add_done_callback(self._on_end)

    def step(self, output: EnvOutput, numbers: Sequence[tuple[int, str, float]] = ()) -> np.ndarray:
        """Send a step of the group's E environments, and numbers about ended episodes; return actions [E, ...].

        After a step in which `last` is set, those n environments may send their next step alone, with fields [n, ...].
        Numbers are an index in the group, name and value.
        Raises Disconnected, RunOver, and Rejected if `output` doesn't match the spec or the learner refuses the stream.
        """
        try:
            codec = self._codec.of(len(output.done))
            message = codec.encode_step(output)
            self._requests.put(message + messages.episode_numbers(numbers) if numbers else message)
            return codec.decode_actions(next(self._call))
        except grpc.RpcError as error:
            raise _failure(error, self._learner) from error
        except StopIteration as error:
            raise RunOver(f"the run of the learner at {self._learner} is over") from error
        except WireError as error:
            raise Rejected(str(error)) from error

    def close(self) -> None:
        """Close the stream cleanly if the connection still exists. May be called twice."""
        self._requests.put(None)
        if not self._ended.wait(timeout=1.0):
            self._call.cancel()

    def _on_end(self, _: object) -> None:
        self._requests.put(None)
        self._ended.set()


# What a user may check, by words of gRPC's messages; after the first ones, trying again would fail again.
_NO_LEARNER = {
    "CERTIFICATE_VERIFY_FAILED": "is the learner's certificate vouched for by --tls_ca?",
    "Hostname Verification Check failed": "is the learner's certificate for another name? Then give --tls_server_name",
    "WRONG_VERSION_NUMBER": "does the learner use TLS? Without it, actors do without --tls_ca",
    "Method not found": "is this a learner's address?",
    "Received http2 header with status": "is this a learner's address, without a proxy in between?",
}
_HINTS = _NO_LEARNER | {
    "Socket closed": "does the learner use TLS? Then actors need --tls_ca, and --tls_cert if it has --tls_client_ca; "
    "its key must be RSA, P-256 or P-384",
    "Failed parsing HTTP/2": "is this a learner's address?",
    "handshaker shutdown": "there was no answer: is a firewall in between?",
}


def _failure(error: grpc.RpcError, learner: str) -> Disconnected | Rejected | RunOver:
    code, details = error.code(), printable(error.details() or "no reason given")
    words = next((words for words in _HINTS if words in details), "")
    if words in _NO_LEARNER:
        return Rejected(f"{learner}: {details}; {_HINTS[words]}")
    if code == grpc.StatusCode.ABORTED:
        return RunOver(f"the run of the learner at {learner} is over")
    if code in _FINAL:
        return Rejected(details)
    hint = f"; {_HINTS[words]}" if words else ""
    return Disconnected(f"{learner}: {details} ({code.name}){hint}")
