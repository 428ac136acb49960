"""The wire: messages through the real server, decoded and batched, with nothing behind them.

A load generator on the same machine sends Pong's frames, through a unix socket or in shared memory with an empty
message beside it; each message is for the observations of a group of environments. CPU is given for each side, in
microseconds per observation, which are CPU seconds per million observations. Beside it stands what a bare pair of unix
sockets copies of the same bytes, a message at a time.
"""

from __future__ import annotations

import argparse
import multiprocessing
import socket
import tempfile
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import psutil

from benchmarks import flags
from benchmarks.failures import MeasurementFailed
from benchmarks.load import load, send_bytes
from benchmarks.text import columns, number
from benchmarks.timing import rates, spread
from seed_rl.buffers.slots import SlotPool, UnrollQueue
from seed_rl.buffers.unroll_store import StepWrites
from seed_rl.inference.batcher import Batcher
from seed_rl.inference.cursor import UnrollCursor
from seed_rl.inference.membership import Membership
from seed_rl.inference.service import CentralInference
from seed_rl.inference.staging import Staging
from seed_rl.inference.thread import ActingThread
from seed_rl.specs import ActorSettings, ArraySpec, DiscreteSpec, EnvDescription, EnvSpec
from seed_rl.transport.codec import StepCodec
from seed_rl.transport.credentials import ServerSecurity
from seed_rl.transport.server import ActorServer
from seed_rl.types import EnvOutput

ENV_SPEC = EnvSpec(ArraySpec((84, 84, 1), "uint8"), DiscreteSpec(6))
"""Pong's."""

WIRE, MEMORY = "wire", "memory"
WAYS = (WIRE, MEMORY)
"""How a step's tensors come to the server: in gRPC's messages, or in memory that both processes share."""

QUICK = {"streams": "1,8", "group_sizes": "1,4", "max_envs": 16, "seconds": 0.3}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Its flags."""
    parser.add_argument("--streams", type=flags.counts, default="1,8,64,512,1024", help="numbers of streams")
    parser.add_argument("--group_sizes", type=flags.counts, default="1,16,32,64", help="environments per message")
    parser.add_argument("--max_envs", type=flags.count, default=16384, help="more environments in all are left out")
    parser.add_argument("--through", type=flags.some_of(WAYS), default=",".join(WAYS), help="how steps come")
    flags.add_timing(parser, seconds=3.0)


def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    """Rates of each number of streams with each size of message, and of bare sockets for each size."""
    timing = arguments.seconds, arguments.repeats
    pairs = [(streams, size) for size in arguments.group_sizes for streams in arguments.streams]
    return {
        "server": [
            measure_streams(ENV_SPEC, streams, size, through, *timing)
            for streams, size in pairs
            for through in arguments.through
            if streams * size <= arguments.max_envs
        ],
        "left_out": [list(pair) for pair in pairs if pair[0] * pair[1] > arguments.max_envs],
        "socket": [
            {"group_size": size, "observations": spread(socket_rates(ENV_SPEC, size, *timing))}
            for size in arguments.group_sizes
        ],
    }


def table(result: dict[str, Any]) -> str:
    """For people."""
    plain = {copied["group_size"]: copied["observations"]["median"] for copied in result["socket"]}
    rows = [
        [
            str(sent["group_size"]),
            str(sent["streams"]),
            sent["through"],
            *(number(sent[name]["median"]) for name in ("messages", "observations")),
            number(sent["bytes"]["median"] / 1e6),
            *(number(sent[name]["median"]) for name in ("server_cpu_us", "client_cpu_us")),
            f"{sent['observations']['median'] / plain[sent['group_size']]:.3f}",
        ]
        for sent in result["server"]
    ]
    heads = ["envs per\nmessage", "streams", "through", "messages/s", "observations/s", "MB/s"]
    heads += ["server\nµs/obs.", "client\nµs/obs.", "of plain\ncopy"]
    lines = [columns(heads, rows)]
    if result["left_out"]:
        left_out = ", ".join(f"{streams} x {size}" for streams, size in result["left_out"])
        lines.append(f"left out (streams x environments per message): {left_out}")
    copies = ", ".join(f"{number(rate)} ({size} per message)" for size, rate in plain.items())
    lines.append(f"plain copy, observations/s: {copies}")
    return "\n".join(lines)


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
    thread = ActingThread(
        num_envs=num_envs,
        act_step=NullActStep(env_spec, batch_size),  # type: ignore[arg-type]
        cursor=UnrollCursor(np.zeros(num_envs, bool), 2, 1, SlotPool(1), False),
        queue=UnrollQueue(1),
        batcher=Batcher(batch_size, max_wait=0.002),
        on_episodes=lambda episodes: None,
    )
    settings = ActorSettings(EnvDescription("none", {}), 1, 1)
    return CentralInference(settings, env_spec, Membership(num_envs, 0, 60.0), [thread])


def measure_streams(
    env_spec: EnvSpec, streams: int, group_size: int, through: str, seconds: float, repeats: int = 3
) -> dict[str, Any]:
    """What goes through the server, with the load generator on the same machine.

    Args:
      through: one of `WAYS`.

    Returns:
      `messages`, `observations` and `bytes` per second, and the microseconds of CPU per observation of the server (this
      process) and the client (the load generator), each a `spread`.
    """
    num_envs = streams * group_size
    service = null_inference(env_spec, num_envs, max(group_size, min(num_envs, 256)))
    with tempfile.TemporaryDirectory(prefix="seed_rl-") as directory:
        server = ActorServer(f"unix:{directory}/bench.sock", service, security=ServerSecurity())
        service.start()
        with load(server.start(), env_spec, streams, group_size, share_memory=through == MEMORY) as sender:
            try:
                while server.stats.streams < streams or server.stats.steps < 10 * streams:
                    time.sleep(0.01)
                    if not sender.is_alive():
                        raise MeasurementFailed("the load generator ended before it sent anything")
                client = psutil.Process(sender.pid)
                moments = [_now(server, client)]
                for _ in range(repeats):
                    time.sleep(seconds / repeats)
                    moments.append(_now(server, client))
            finally:
                service.stop()
                server.stop(grace=1)
    elapsed, steps, server_cpu, client_cpu = np.diff(moments, axis=0).T
    observations = steps * group_size
    step_bytes = StepCodec(env_spec, group_size).payload_bytes
    measured = {
        "messages": steps / elapsed,
        "observations": observations / elapsed,
        "bytes": steps * step_bytes / elapsed,
        "server_cpu_us": 1e6 * server_cpu / observations,
        "client_cpu_us": 1e6 * client_cpu / observations,
    }
    spreads = {name: spread(values.tolist()) for name, values in measured.items()}
    return {"streams": streams, "group_size": group_size, "through": through, **spreads}


def _now(server: ActorServer, client: psutil.Process) -> np.ndarray:
    used = client.cpu_times()
    return np.array([time.monotonic(), server.stats.steps, time.process_time(), used.user + used.system])


def socket_rates(env_spec: EnvSpec, group_size: int, seconds: float, repeats: int = 3) -> list[float]:
    """Observations per second if a step's bytes are just copied through a pair of unix sockets, a reply for each."""
    size = StepCodec(env_spec, group_size).step_bytes
    ours, theirs = socket.socketpair()
    spawn = multiprocessing.get_context("spawn")
    sender = spawn.Process(target=send_bytes, args=(theirs, size))
    sender.start()
    theirs.close()
    buffer = memoryview(bytearray(size))

    def receive() -> int:
        filled = 0
        while filled < size:
            filled += ours.recv_into(buffer[filled:])
        ours.sendall(b"x")
        return group_size

    try:
        return rates(receive, seconds, repeats)
    finally:
        ours.close()
        sender.join()
