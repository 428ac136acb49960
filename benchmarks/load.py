"""Streams of observations that cost next to nothing to make: what actors would send if they had no environments.

Through gRPC's messages, or in shared memory. `traffic` sends at the pace of environments and times the answers.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.process import BaseProcess
from typing import Any

import grpc
import grpc.aio
import numpy as np

from seed_rl.specs import ArraySpec, EnvSpec, Lease
from seed_rl.transport import methods
from seed_rl.transport.address import parse_address
from seed_rl.transport.client import LearnerClient
from seed_rl.transport.codec import StepCodec
from seed_rl.transport.credentials import ClientSecurity
from seed_rl.transport.shared_memory import OfferedMemory
from seed_rl.types import EnvOutput


def random_output(spec: EnvSpec, batch: int) -> EnvOutput:
    """Random observations [batch, ...], no reward, no ends."""
    rng = np.random.default_rng(0)

    def draw(tensor: ArraySpec) -> np.ndarray:
        return rng.integers(0, 2 if tensor.dtype == "bool" else 100, (batch, *tensor.shape)).astype(tensor.dtype)

    observation = spec.observation
    drawn = (
        draw(observation)
        if isinstance(observation, ArraySpec)
        else {name: draw(tensor) for name, tensor in observation.items()}
    )
    return EnvOutput(np.zeros(batch, np.float32), np.zeros(batch, bool), drawn)


def send_load(
    address: str, env_spec: EnvSpec, streams: int, group_size: int, pause: float = 0.0, share_memory: bool = False
) -> None:
    """Sends the same observations from `streams` streams, `pause` seconds apart, until the server ends them.

    All of them share one thread, and a message is encoded once: what is measured is the server.
    """
    client = LearnerClient(address, ClientSecurity())
    lease = client.join("load", env_spec, [group_size] * streams, timeout=30)
    client.close()
    asyncio.run(_send(address, lease, env_spec, share_memory, pause))


async def _send(address: str, lease: Lease, env_spec: EnvSpec, share_memory: bool, pause: float) -> None:
    async with grpc.aio.insecure_channel(
        str(parse_address(address)), [("grpc.max_receive_message_length", -1)]
    ) as channel:

        async def run(group: int) -> None:
            size = len(lease.groups[group].env_ids)
            output, codec = random_output(env_spec, size), StepCodec(env_spec, size)
            message, metadata = codec.encode_step(output), methods.membership_metadata(lease.session, group)
            memory = OfferedMemory(codec.payload_bytes) if share_memory else None
            if memory is not None:
                metadata += methods.memory_metadata(memory.offer)
            call: Any = channel.stream_stream(methods.ACT)(metadata=metadata)
            if memory is not None:
                if not methods.memory(await call.initial_metadata()):
                    raise RuntimeError("the learner doesn't take the memory")
                memory.close()
                message = b""
            try:
                while True:
                    if memory is not None:
                        codec.write_step(output, memory.step)
                    await call.write(message)
                    if await call.read() is grpc.aio.EOF:
                        return
                    if pause:
                        await asyncio.sleep(pause)
            except (grpc.aio.AioRpcError, asyncio.InvalidStateError):
                return  # the server has ended it

        await asyncio.gather(*(run(group) for group in range(len(lease.groups))))


@contextmanager
def load(
    address: str, env_spec: EnvSpec, streams: int, group_size: int, pause: float = 0.0, share_memory: bool = False
) -> Iterator[BaseProcess]:
    """A process that runs `send_load`; the server is to be stopped before this ends."""
    process = multiprocessing.get_context("spawn").Process(
        target=send_load, args=(address, env_spec, streams, group_size, pause, share_memory)
    )
    process.start()
    try:
        yield process
    finally:
        process.join(10)
        process.kill()


def send_bytes(connection: socket.socket, size: int) -> None:
    """Sends messages of `size` bytes through a bare socket, each after a byte in answer to the last, until it ends."""
    message = bytes(size)
    try:
        while True:
            connection.sendall(message)
            if not connection.recv(1):
                return
    except OSError:
        return
