"""The load generator: streams that send recorded steps at the pace of environments, and time each answer.

A stream sends its next observations a step time after it got its actions, as an actor does; the step time is drawn for
each step. The clock of a latency starts when the observations were *due*, at the end of that step time, and not when a
busy generator came to send them, so whatever the generator adds makes a latency longer and none is hidden; how late it
sent is reported beside (`lags`). What counts for a time are the observations that were due in it: they are waited for,
and those without an answer count with their age.

Streams are those of actors on other machines: their steps travel in gRPC's messages, whatever the address, and never in
shared memory, as those of actors beside the learner do. For the server alone, saturated through either, there is
`load`, which sends one message again and again.

All streams of a generator share one thread. Its timers are exact to some 0.1 ms: the usual `epoll` would round up to
whole milliseconds.
"""

from __future__ import annotations

import asyncio
import dataclasses
import selectors
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import grpc
import grpc.aio
import numpy as np

from benchmarks import pacing
from benchmarks.recording import Recording
from seed_rl.specs import EnvSpec, Lease
from seed_rl.transport import methods
from seed_rl.transport.address import parse_address
from seed_rl.transport.client import LearnerClient
from seed_rl.transport.codec import StepCodec
from seed_rl.transport.credentials import ClientSecurity

_JOIN_SECONDS = 60.0
_PATIENCE_SECONDS = 10.0
_DRAWN_AT_ONCE = 64


@dataclasses.dataclass(frozen=True)
class Traffic:
    """What a generator sends, and where."""

    address: str
    """Of a learner without TLS."""
    env_spec: EnvSpec
    recording: str
    """Path of a file of `recording.record`."""
    streams: int
    group_size: int
    """Environments of each stream."""
    connections: int
    """The streams are spread over so many; an actor process has one."""
    encode_each: bool = False
    """Encode each step when it is due, as an actor does, instead of all of them before."""
    seed: int = 0


class Pace(NamedTuple):
    """Asks a generator to send at a pace, and what it sees."""

    step_seconds: float
    """0: as soon as the answer is there."""
    jitter: float
    """Step times are uniform in step_seconds * [1 - jitter, 1 + jitter]."""
    seconds: float
    """How long to measure."""


class Seen(NamedTuple):
    """What generators saw while they measured."""

    latencies: np.ndarray
    """float64 [n], seconds from when observations were due to when their actions were decoded."""
    lags: np.ndarray
    """float64 [n], seconds from when they were due to when they were handed to gRPC."""
    unanswered: int
    """Of the n, those that had no answer after 10 s more."""
    observations_per_second: float
    """Answered, of all environments."""
    cpu_share: float
    """Of one core, by the busiest generator."""

    @staticmethod
    def together(parts: list[Seen]) -> Seen:
        """What several saw at the same time."""
        return Seen(
            np.concatenate([part.latencies for part in parts]),
            np.concatenate([part.lags for part in parts]),
            sum(part.unanswered for part in parts),
            sum(part.observations_per_second for part in parts),
            max(part.cpu_share for part in parts),
        )


@contextmanager
def generator(traffic: Traffic) -> Iterator[Callable[[Pace], Seen]]:
    """Opens the streams, which send at the pace of the last request from the first one on. For `children.Child`."""
    client = LearnerClient(traffic.address, ClientSecurity())
    try:
        lease = client.join("load", traffic.env_spec, [traffic.group_size] * traffic.streams, _JOIN_SECONDS)
    finally:
        client.close()
    loop = asyncio.SelectorEventLoop(selectors.SelectSelector())
    thread = threading.Thread(target=_run_forever, args=(loop,), name="generator", daemon=True)
    thread.start()

    def wait(work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, loop).result()

    streams = _Streams(traffic, lease)
    try:
        wait(streams.open())
        yield lambda pace: wait(streams.measure(pace))
    finally:
        wait(streams.close())
        loop.call_soon_threadsafe(loop.stop)
        thread.join()


def _run_forever(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    loop.run_forever()


class _Streams:
    """All streams of a generator; used on its event loop."""

    def __init__(self, traffic: Traffic, lease: Lease):
        self._traffic = traffic
        self._lease = lease
        self._codec = StepCodec(traffic.env_spec, traffic.group_size)
        self._recording = Recording(traffic.recording, traffic.group_size)
        self._rng = np.random.default_rng(traffic.seed)
        self._message = self._encode if traffic.encode_each else self._encoded().__getitem__
        self._pace = Pace(0.0, 0.0, 0.0)
        self._due = np.full(traffic.streams, np.inf)  # of what waits for its answer; infinity: nothing does
        self._answers: list[tuple[float, float, float]] = []  # due, sent, answered
        self._answered = 0
        self._failure: BaseException | None = None

    def _encode(self, key: tuple[int, int]) -> bytes:
        return self._codec.encode_step(self._recording.output(*key))

    def _encoded(self) -> dict[tuple[int, int], bytes]:
        keys = [(group, step) for group in range(self._recording.groups) for step in range(self._recording.steps)]
        return {key: self._encode(key) for key in keys}

    async def open(self) -> None:
        options = [("grpc.max_receive_message_length", -1), ("grpc.use_local_subchannel_pool", 1)]
        target = str(parse_address(self._traffic.address))
        self._channels = [grpc.aio.insecure_channel(target, options) for _ in range(self._traffic.connections)]
        await asyncio.gather(*(channel.channel_ready() for channel in self._channels))
        self._begun = asyncio.Event()
        self._tasks = [asyncio.create_task(self._run(stream)) for stream in range(self._traffic.streams)]

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.gather(*(channel.close() for channel in self._channels))

    async def measure(self, pace: Pace) -> Seen:
        self._pace = pace
        self._begun.set()
        self._answers.clear()
        answered_before, cpu_before = self._answered, time.process_time()
        began = time.monotonic()
        await asyncio.sleep(pace.seconds)
        ended = time.monotonic()
        answered = self._answered - answered_before
        cpu_share = (time.process_time() - cpu_before) / (ended - began)
        await self._wait_for_those_due_before(ended)
        if self._failure is not None:
            raise RuntimeError(f"a stream ended: {self._failure}") from self._failure

        due, sent, came = np.array(self._answers, np.float64).reshape(-1, 3).T
        counts = (due >= began) & (due < ended)
        late = self._due[(self._due >= began) & (self._due < ended)]
        return Seen(
            np.concatenate([(came - due)[counts], time.monotonic() - late]),
            (sent - due)[counts],
            len(late),
            answered * self._traffic.group_size / (ended - began),
            cpu_share,
        )

    async def _wait_for_those_due_before(self, ended: float) -> None:
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while np.any(self._due < ended) and time.monotonic() < deadline and self._failure is None:
            await asyncio.sleep(0.005)

    async def _run(self, stream: int) -> None:
        try:
            await self._converse(stream)
        except (grpc.aio.AioRpcError, asyncio.InvalidStateError) as error:
            self._failure = self._failure or error

    async def _converse(self, stream: int) -> None:
        await self._begun.wait()
        channel = self._channels[stream % len(self._channels)]
        metadata = methods.membership_metadata(self._lease.session, stream)
        call: Any = channel.stream_stream(methods.ACT)(metadata=metadata)
        steps = self._step_times()
        group, position = stream % self._recording.groups, int(self._rng.integers(self._recording.steps))
        due = time.monotonic() + self._rng.uniform(0, max(self._pace.step_seconds, 0.001))
        while True:
            remaining = due - time.monotonic()
            if remaining > 0:
                await asyncio.sleep(remaining)
            self._due[stream] = due
            message = self._message((group, position))
            sent = time.monotonic()
            await call.write(message)
            reply = await call.read()
            if reply is grpc.aio.EOF:
                raise asyncio.InvalidStateError(f"the learner closed it ({await call.details()})")
            self._codec.decode_actions(reply)
            came = time.monotonic()
            self._due[stream] = np.inf
            self._answers.append((due, sent, came))
            self._answered += 1
            due = came + next(steps)
            position = (position + 1) % self._recording.steps

    def _step_times(self) -> Iterator[float]:
        """Endless; changes with the pace."""
        while True:
            pace = self._pace
            drawn = pacing.step_times(self._rng, pace.step_seconds, pace.jitter, _DRAWN_AT_ONCE).tolist()
            while drawn and pace is self._pace:
                yield drawn.pop()
