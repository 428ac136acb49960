"""A load generator for a learner's server: streams of observations from a process without environments.

A simulated actor has its own connection and a stream for each of its groups. A stream sends random frames, generated
and encoded once, one step time after it received its actions (immediately if the step time is 0). Latencies are
measured from the end of the step time, when the observations were due, so that a busy generator can't hide latency. All
streams share one thread.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import multiprocessing
import selectors
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from typing import TYPE_CHECKING, Any, NamedTuple

import grpc
import grpc.aio
import numpy as np
import psutil

from benchmarks import BenchmarkError
from seed_rl.specs import ActorSettings, ArraySpec, EnvDescription, EnvSpec, Lease
from seed_rl.transport import protocol
from seed_rl.transport.address import parse_address
from seed_rl.transport.client import LearnerClient
from seed_rl.transport.codec import StepCodec
from seed_rl.transport.credentials import ClientSecurity, ServerSecurity
from seed_rl.transport.server import ActorServer
from seed_rl.transport.shared_memory import OfferedMemory
from seed_rl.types import EnvOutput

if TYPE_CHECKING:  # the generator process doesn't load TensorFlow
    from seed_rl.inference.service import CentralInference

SERVER_THREAD, INFERENCE_THREAD = "actor-server", "inference"
_JITTER = 0.3  # relative variation of step times, up and down
_START_SECONDS = 120.0


class Load(NamedTuple):
    """Shape of the load of a generator."""

    env_spec: EnvSpec
    actors: int
    """Number of actors, i.e. connections."""
    groups: int
    """Streams per actor."""
    group_size: int
    """Environments per stream."""
    step_seconds: float = 0.0
    """Mean time between actions and the next observations, seconds."""
    share_memory: bool = False
    """Pass steps through shared memory, with an empty message."""

    @property
    def streams(self) -> int:
        return self.actors * self.groups


class Window(NamedTuple):
    """Measurements of one repeat."""

    latencies: np.ndarray
    """Latencies of the n answered messages, seconds, float64 [n]."""
    seconds: float
    messages: int
    observations: int
    batches: int
    server_cpu: float
    """CPU seconds of the learner process."""
    server_thread_cpu: float
    """CPU seconds of the server thread, which receives and decodes messages."""
    inference_thread_cpu: float
    """CPU seconds of the thread that batches, acts and sends answers."""
    client_cpu: float
    """CPU seconds of the load generator."""

    def milliseconds(self, percentiles: Mapping[str, float]) -> dict[str, float]:
        """Percentiles of the latencies, by name; each is a latency that occurred."""
        values = np.percentile(1000 * self.latencies, list(percentiles.values()), method="inverted_cdf")
        return dict(zip(percentiles, values.tolist(), strict=True))


def random_output(spec: EnvSpec, batch: int) -> EnvOutput:
    """Create random observations [batch, ...] with zero reward, in the middle of an episode."""
    rng = np.random.default_rng(0)

    def draw(tensor: ArraySpec) -> np.ndarray:
        return rng.integers(0, 2 if tensor.dtype == "bool" else 100, (batch, *tensor.shape)).astype(tensor.dtype)

    drawn = {name: draw(tensor) for name, tensor in spec.observation_tensors()}
    return EnvOutput(np.zeros(batch, np.float32), np.zeros(batch, bool), np.zeros(batch, bool), drawn.get("", drawn))


def measure(
    service: CentralInference,
    load: Load,
    settle: float,
    seconds: float,
    repeats: int,
    failure: Callable[[], BaseException | None] = lambda: None,
) -> list[Window]:
    """Measure a service, which is started and stopped, behind a real server under the load of a generator.

    The repeats take some seconds in total, after `settle` seconds of load; `failure` returns the error of the thread
    that learns, if any.

    Raises:
      BenchmarkError: a part failed, or nothing was answered within a repeat.
    """
    with contextlib.ExitStack() as cleanup:
        pool = cleanup.enter_context(ProcessPoolExecutor(1, multiprocessing.get_context("spawn")))
        directory = cleanup.enter_context(tempfile.TemporaryDirectory(prefix="seed_rl-"))
        settings = ActorSettings(EnvDescription("none", {}), 1, 1)
        server = ActorServer(f"unix:{directory}/bench.sock", settings, security=ServerSecurity())
        server.service = service
        service.start()
        cleanup.callback(service.stop)
        address = server.start()
        cleanup.callback(server.stop, grace=1)
        sent = pool.submit(_generate, address, load)
        deadline, two_each = time.monotonic() + _START_SECONDS, 2 * load.streams * load.group_size
        while len(server.streams) < load.streams or service.stats.agent_steps < two_each:
            time.sleep(0.01)
            if sent.done() or time.monotonic() > deadline:
                raise BenchmarkError(f"{len(server.streams)} of {load.streams} streams opened")
        time.sleep(settle)
        counts = [_counts(service, load)]
        for _ in range(repeats):
            time.sleep(seconds / repeats)
            counts.append(_counts(service, load))
        service.raise_failure()
        if (failed := failure()) is not None:
            raise BenchmarkError(f"the learner failed: {failed}") from failed
        if (missing := load.streams - len(server.streams)) > 0:
            raise BenchmarkError(f"{missing} of {load.streams} streams ended early")
        service.stop()
        server.stop(grace=1)
        due, answered = sent.result()
    windows = []
    for before, after in itertools.pairwise(counts):
        inside = (answered >= before[0]) & (answered < after[0])
        windows.append(Window((answered - due)[inside], *(after - before).tolist()))
        if not (inside.any() and windows[-1].batches):
            raise BenchmarkError("nothing was answered within a repeat: increase --seconds")
    return windows


def _counts(service: CentralInference, load: Load) -> np.ndarray:
    """Return the current values of the fields of a `Window` from `seconds` on; the first is the monotonic clock."""
    numbers = {thread.native_id: thread.name for thread in threading.enumerate()}
    cpu = {SERVER_THREAD: 0.0, INFERENCE_THREAD: 0.0}
    for thread in psutil.Process().threads():
        name = numbers.get(thread.id, "")
        if name in cpu:
            cpu[name] += thread.user_time + thread.system_time
    children = [child.cpu_times() for child in psutil.Process().children()]  # the generator, and idle ones
    used, steps = sum(each.user + each.system for each in children), service.stats.agent_steps
    counts = steps // load.group_size, steps, service.stats.batches
    return np.array([time.monotonic(), *counts, time.process_time(), *cpu.values(), used])


def _generate(address: str, load: Load) -> tuple[np.ndarray, np.ndarray]:
    """Send until the server ends the streams.

    Returns:
      The times when observations were due and answered, float64 [n] each, seconds of the monotonic clock.
    """
    client = LearnerClient(address, ClientSecurity())
    sizes = [load.group_size] * load.groups
    leases = [client.join(f"actor {n}", load.env_spec, sizes, timeout=60) for n in range(load.actors)]
    client.close()
    # The usual `epoll` would round waits up to whole milliseconds.
    loop = asyncio.SelectorEventLoop(selectors.SelectSelector())
    asyncio.set_event_loop(loop)
    return loop.run_until_complete(_send(address, load, leases))


async def _send(address: str, load: Load, leases: list[Lease]) -> tuple[np.ndarray, np.ndarray]:
    going, codec = random_output(load.env_spec, load.group_size), StepCodec(load.env_spec, load.group_size)
    rng = np.random.default_rng(0)
    options = [("grpc.max_receive_message_length", -1), ("grpc.use_local_subchannel_pool", 1)]
    target = str(parse_address(address))
    channels = [grpc.aio.insecure_channel(target, options) for _ in range(load.actors)]
    times: list[tuple[float, float]] = []

    async def converse(actor: int, group: int) -> None:
        output = going._replace(done=np.ones_like(going.done))
        first, message = codec.encode_step(output), codec.encode_step(going)
        memory = OfferedMemory(codec.payload_bytes) if load.share_memory else None
        shared = None if memory is None else StepCodec(load.env_spec, load.group_size, memory=memory.step)
        metadata = protocol.Opening(leases[actor].session, group, memory.offer if memory else "").metadata()
        call: Any = channels[actor].stream_stream(protocol.ACT)(metadata=metadata)
        if memory is not None:
            if protocol.MEMORY_ACCEPTED not in tuple(await call.initial_metadata()):
                raise RuntimeError("the learner doesn't accept the shared memory")
            memory.close()
            first = message = protocol.ALL_IN_MEMORY
        due = time.monotonic() + rng.uniform(0, load.step_seconds)
        while True:
            if load.step_seconds:
                await asyncio.sleep(due - time.monotonic())
            if shared is not None:
                shared.encode_step(output)
            await call.write(first)
            output, first = going, message
            if await call.read() is grpc.aio.EOF:
                return
            answered = time.monotonic()
            times.append((due, answered))
            due = answered + load.step_seconds * rng.uniform(1 - _JITTER, 1 + _JITTER)

    async def until_ended(actor: int, group: int) -> None:
        try:
            await converse(actor, group)
        except (grpc.aio.AioRpcError, asyncio.InvalidStateError):
            return  # ended by the server

    await asyncio.gather(*(until_ended(*pair) for pair in itertools.product(range(load.actors), range(load.groups))))
    await asyncio.gather(*(channel.close() for channel in channels))
    due, answered = np.array(times, np.float64).reshape(-1, 2).T
    return due, answered
