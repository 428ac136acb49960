"""The wire: messages through the real server, decoded and batched, with nothing behind them."""

from __future__ import annotations

import multiprocessing
import socket
import tempfile
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import psutil

from seed_rl.bench.load import load
from seed_rl.buffers.slots import SlotPool, UnrollQueue
from seed_rl.buffers.unroll_store import StepWrites
from seed_rl.inference.batcher import Batcher
from seed_rl.inference.cursor import UnrollCursor
from seed_rl.inference.membership import Membership
from seed_rl.inference.service import CentralInference
from seed_rl.inference.staging import Staging
from seed_rl.specs import ActorSettings, EnvDescription, EnvSpec
from seed_rl.transport.codec import StepCodec
from seed_rl.transport.credentials import ServerSecurity
from seed_rl.transport.server import ActorServer
from seed_rl.types import EnvOutput


class NullActStep:
    """Brings observations into one batch, as the act step does, and answers with zeros."""

    def __init__(self, env_spec: EnvSpec, batch_size: int):
        self._staging = Staging(env_spec, batch_size)
        action = env_spec.action.tensor
        self._actions = np.zeros((batch_size, *action.shape), action.dtype)

    def __call__(
        self, env_ids: np.ndarray, restarted: np.ndarray, writes: StepWrites, outputs: Sequence[EnvOutput]
    ) -> np.ndarray:
        """Zeros [B, ...]."""
        self._staging.fill(outputs)
        return self._actions[: len(env_ids)]

    def padding(self, batch: int) -> int:
        """None."""
        return 0


def null_inference(env_spec: EnvSpec, num_envs: int, batch_size: int) -> CentralInference:
    """The real service, batches included, around a `NullActStep`; no step is kept."""
    pool = SlotPool(1)
    return CentralInference(
        ActorSettings(EnvDescription("none", {}), 1, 1),
        env_spec,
        act_step=NullActStep(env_spec, batch_size),  # type: ignore[arg-type]
        cursor=UnrollCursor(np.zeros(num_envs, bool), 2, 1, pool, False),
        queue=UnrollQueue(1),
        batcher=Batcher(batch_size, max_wait=0.002),
        membership=Membership(num_envs, 0, 60.0),
        on_episodes=lambda episodes: None,
    )


def measure(
    env_spec: EnvSpec, streams: int, group_size: int, seconds: float, share_memory: bool = False
) -> dict[str, Any]:
    """What goes through the server, with the load generator on the same machine.

    Returns:
      `messages`, `observations` and `bytes` per second, and the microseconds of CPU per observation of the server (this
      process) and the client (the load generator).
    """
    num_envs = streams * group_size
    service = null_inference(env_spec, num_envs, max(group_size, min(num_envs, 256)))
    with tempfile.TemporaryDirectory(prefix="seed_rl-") as directory:
        server = ActorServer(f"unix:{directory}/bench.sock", service, security=ServerSecurity())
        service.start()
        with load(server.start(), env_spec, streams, group_size, share_memory=share_memory) as sender:
            try:
                while server.stats.streams < streams or server.stats.steps < 10 * streams:
                    time.sleep(0.01)
                    if not sender.is_alive():
                        raise RuntimeError("the load generator ended before it sent anything")
                client = psutil.Process(sender.pid)
                before, began = _now(server, client), time.monotonic()
                time.sleep(seconds)
                after, elapsed = _now(server, client), time.monotonic() - began
            finally:
                service.stop()
                server.stop(grace=1)
    steps, nbytes, server_cpu, client_cpu = after - before
    observations = steps * group_size
    return {
        "streams": streams,
        "group_size": group_size,
        "messages": steps / elapsed,
        "observations": observations / elapsed,
        "bytes": nbytes / elapsed,
        "server_cpu_us": 1e6 * server_cpu / observations,
        "client_cpu_us": 1e6 * client_cpu / observations,
    }


def _now(server: ActorServer, client: psutil.Process) -> np.ndarray:
    used = client.cpu_times()
    return np.array([server.stats.steps, server.stats.bytes_received, time.process_time(), used.user + used.system])


def socket_rate(env_spec: EnvSpec, group_size: int, seconds: float) -> float:
    """Observations per second if a step's bytes are just copied through a pair of unix sockets, a reply for each."""
    size = StepCodec(env_spec, group_size).step_bytes
    ours, theirs = socket.socketpair()
    spawn = multiprocessing.get_context("spawn")
    sender = spawn.Process(target=_send_bytes, args=(theirs, size))
    sender.start()
    theirs.close()
    buffer = memoryview(bytearray(size))

    def receive() -> None:
        filled = 0
        while filled < size:
            filled += ours.recv_into(buffer[filled:])
        ours.sendall(b"x")

    try:
        receive()
        steps, began = 0, time.monotonic()
        while (elapsed := time.monotonic() - began) < seconds:
            receive()
            steps += 1
    finally:
        ours.close()
        sender.join()
    return steps * group_size / elapsed


def _send_bytes(connection: socket.socket, size: int) -> None:
    message = bytes(size)
    try:
        while True:
            connection.sendall(message)
            if not connection.recv(1):
                return
    except OSError:
        return
