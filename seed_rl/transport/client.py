"""The actors' side: a synchronous client. Each group of environments is a thread with a stream of its own."""

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
_FINAL.add(grpc.StatusCode.PERMISSION_DENIED)  # from a proxy
_RETRY_SECONDS = 0.1  # while a learner is starting
_CONNECT_MILLISECONDS = 5000  # a peer that doesn't answer as a gRPC server by then doesn't count as connected
_CLOSE_SECONDS = 1.0


class Disconnected(Exception):
    """No learner at the moment, or none that knows this session; worth another try after a back-off."""


class Rejected(Exception):
    """The learner refuses this actor for good (version, spaces, credentials, a bad message); one sentence."""


class LearnerClient:
    """Talks to one learner. Its methods may be called from any thread.

    They raise `Rejected` if the learner refuses this actor or isn't a learner, and `Disconnected` if there is no answer
    in time, the learner is full, or this client is closed. After `Disconnected`, close it, wait, and make another: one
    that stays open tries to connect twice a second.
    """

    def __init__(
        self,
        address: str,
        security: ClientSecurity,
        *,
        name: str | None = None,
        keepalive_seconds: float = 10.0,
        share_memory: bool = True,
    ):
        """
        Args:
          address: `host:port` or `unix:/path`.
          security: credentials.
          name: of this actor in the learner's log, by default the name of the host.
          keepalive_seconds: a learner whose machine has been silent for this long is asked for a sign of life, and is
            given up after as long again without one.
          share_memory: whether a learner on this machine may read steps from memory that it shares with this process.

        Raises:
          AddressError: malformed.
          SecurityError: the token would cross a network in plain text, or a file is unusable.
        """
        self._learner = address
        target = parse_address(address)
        self._share_memory = share_memory and target.is_local
        security.check(target)
        self._name = name or socket.gethostname()
        self._metadata = security.metadata()
        options: list[tuple[str, int | str]] = [
            *protocol.keepalive_options(keepalive_seconds),
            ("grpc.initial_reconnect_backoff_ms", 100),
            ("grpc.min_reconnect_backoff_ms", _CONNECT_MILLISECONDS),  # in spite of its name: the time to connect
            ("grpc.max_reconnect_backoff_ms", 400),
            ("grpc.enable_http_proxy", 0),  # a proxy would see the token of a plain loopback connection
            ("grpc.use_local_subchannel_pool", 1),  # a new client gets a new connection
            ("grpc.enable_retries", 0),  # a step must not be sent twice
        ]
        if security.server_name:
            options.append(("grpc.ssl_target_name_override", security.server_name))
        credentials = security.credentials()
        if credentials is None:
            self._channel = grpc.insecure_channel(str(target), options)
        else:
            self._channel = grpc.secure_channel(str(target), credentials, options)
        self._closed = threading.Event()

    def describe(self, timeout: float) -> ActorSettings:
        """The environments that the learner wants. Waits up to `timeout` seconds for a learner that is starting."""
        request = messages.describe_request(self._name)
        return self._call(protocol.DESCRIBE, request, messages.read_describe_reply, timeout)

    def join(self, run_id: str, env_spec: EnvSpec, group_sizes: Sequence[int], timeout: float) -> Lease:
        """Asks for room for groups of environments.

        Args:
          run_id: random, new for each run.
          env_spec: of one environment.
          group_sizes: number of environments of each group.
          timeout: seconds.
        """
        request = messages.join_request(run_id, env_spec, group_sizes)
        read = functools.partial(messages.read_join_reply, env_spec=env_spec, group_sizes=group_sizes)
        return self._call(protocol.JOIN, request, read, timeout)

    def open(self, lease: Lease, group: int, env_spec: EnvSpec) -> ActStream:
        """Opens a group's stream. If the learner refuses it, the first step says so.

        Args:
          lease: from `join`.
          group: index into `lease.groups`.
          env_spec: the one given to `join`.
        """
        codec = StepCodec(env_spec, len(lease.groups[group].env_ids))
        memory = self._offer_memory(codec.payload_bytes)
        opening = protocol.Opening(lease.session, group, memory.offer if memory else "")
        requests: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        act: Any = self._channel.stream_stream(protocol.ACT)
        try:
            call = act(iter(requests.get, None), metadata=(*self._metadata, *opening.metadata()))
            # The initial metadata are the learner's first message: waits for them.
            accepted = memory and protocol.MEMORY_ACCEPTED in (call.initial_metadata() or ())
        except ValueError as error:
            raise Disconnected("the client is closed") from error
        finally:
            if memory:
                memory.close()
        return ActStream(call, requests, codec, memory.step if memory and accepted else None, self._learner)

    def close(self) -> None:
        """Ends all streams and calls; those that wait raise Disconnected. May be called twice."""
        self._closed.set()
        self._channel.close()

    def _offer_memory(self, num_bytes: int) -> OfferedMemory | None:
        try:
            return OfferedMemory(num_bytes) if self._share_memory else None
        except OSError as error:
            _log.debug("steps go over the wire: %s", error)
            return None

    def _call(self, method: str, request: bytes, read: Callable[[bytes], _Reply], timeout: float) -> _Reply:
        """Calls until the learner can be reached; gRPC's own waiting would not say why it can't."""
        call: Any = self._channel.unary_unary(method)
        deadline = time.monotonic() + timeout
        unreachable: Exception | None = None
        while not self._closed.is_set():
            try:
                reply = call(request, timeout=max(0.0, deadline - time.monotonic()), metadata=self._metadata)
            except grpc.RpcError as error:
                failure = _failure(error, self._learner)
                if isinstance(failure, Rejected):
                    raise failure from error
                if error.code() is not grpc.StatusCode.UNAVAILABLE or time.monotonic() + _RETRY_SECONDS > deadline:
                    raise unreachable or failure from error
                unreachable = failure
                self._closed.wait(_RETRY_SECONDS)
            except ValueError:  # closed meanwhile
                break
            else:
                try:
                    return read(reply)
                except ValueError as error:
                    raise Rejected(str(error)) from error
        raise Disconnected("the client is closed")


class ActStream:
    """A group's stream, from `LearnerClient.open`. For one thread; `LearnerClient.close` ends a step that waits."""

    def __init__(
        self,
        call: Any,  # a grpc.Call, grpc.Future and iterator of replies
        requests: queue.SimpleQueue[bytes | None],  # gRPC sends them; None ends its thread that waits here
        codec: StepCodec,
        memory: memoryview | None,  # in which the learner reads steps
        learner: str,
    ):
        self._call = call
        self._requests = requests
        self._codec = codec
        self._shared = None if memory is None else codec.views(memory)
        self._learner = learner
        self._ended = threading.Event()
        call.add_done_callback(self._on_end)

    def step(self, output: EnvOutput) -> np.ndarray:
        """Sends a step of the group's E environments and waits for the answer.

        Args:
          output: reward float32 [E], done bool [E], observation [E, ...] as the spec says.

        Returns:
          Actions [E, ...] as the spec says.

        Raises:
          Disconnected: the learner has gone, or the client is closed.
          Rejected: `output` isn't as the spec says, or the learner refuses this stream.
        """
        try:
            message = b""
            if self._shared is None:
                message = self._codec.encode_step(output)
            else:
                self._codec.write_step(output, self._shared)
            self._requests.put(message)
            return self._codec.decode_actions(next(self._call))
        except grpc.RpcError as error:
            raise _failure(error, self._learner) from error
        except StopIteration as error:
            raise Disconnected(f"{self._learner}: the learner closed the stream") from error
        except WireError as error:
            raise Rejected(str(error)) from error

    def close(self) -> None:
        """Closes cleanly, if the learner is still there. May be called twice."""
        self._requests.put(None)
        if not self._ended.wait(_CLOSE_SECONDS):
            self._call.cancel()

    def _on_end(self, _: object) -> None:
        self._requests.put(None)
        self._ended.set()


def _failure(error: grpc.RpcError, learner: str) -> Disconnected | Rejected:
    """What a failed call means for an actor."""
    code, details = error.code(), error.details() or "no reason given"
    if code in _FINAL:
        return Rejected(details)
    if "CERTIFICATE_VERIFY_FAILED" in details:
        return Rejected(f"the certificate of the learner at {learner} isn't vouched for by --tls_ca: {details}")
    return Disconnected(f"{learner}: {details} ({code.name})")
