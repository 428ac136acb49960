"""The transport: messages through the real server, decoded and batched, without a neural network.

A load generator on the same machine sends Pong's frames as fast as it gets answers, through a unix socket (`wire`) or
in shared memory with an empty message (`memory`). A message has the observations of a group of environments. CPU time
is in microseconds: of the server thread per message; of the inference thread, which batches and sends answers, per
observation; and of both processes per observation, including gRPC's threads.
"""

import argparse
import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks import flags, streams
from benchmarks.report import median, spreads
from seed_rl.buffers.slots import SlotPool, UnrollQueue
from seed_rl.buffers.unroll_store import StepWrites
from seed_rl.inference.act_step import Staging
from seed_rl.inference.batcher import Batcher
from seed_rl.inference.cursor import UnrollCursor
from seed_rl.inference.membership import Membership
from seed_rl.inference.service import CentralInference
from seed_rl.inference.thread import ActingThread
from seed_rl.reporting.text import columns
from seed_rl.specs import ArraySpec, DiscreteSpec, EnvSpec
from seed_rl.transport.codec import StepCodec
from seed_rl.types import EnvOutput

ENV_SPEC = EnvSpec(ArraySpec((84, 84, 1), "uint8"), DiscreteSpec(6))
"""Spec of Pong's environments."""
WAYS = ("wire", "memory")
QUICK = {"streams": "8", "group_sizes": "1,4", "seconds": 0.8, "repeats": 1}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--streams", type=flags.counts, default="1,8,64,512", help="numbers of streams")
    parser.add_argument("--group_sizes", type=flags.counts, default="1,4,16,64", help="environments per message")
    parser.add_argument("--through", type=flags.some_of(WAYS), default=",".join(WAYS), help="path of the steps")
    flags.add_timing(parser, 3.0)


def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    cells = itertools.product(arguments.group_sizes, arguments.streams, arguments.through)
    return {"server": [_row(number, size, through, arguments) for size, number, through in cells]}


def _row(number: int, size: int, through: str, arguments: argparse.Namespace) -> dict[str, Any]:
    service = _null_inference(number * size, max(size, min(number * size, 256)))
    load = streams.Load(ENV_SPEC, actors=1, groups=number, group_size=size, share_memory=through == "memory")
    windows = streams.measure(service, load, 0.2, arguments.seconds, arguments.repeats)
    values = spreads([_values(window, size) for window in windows])
    return {"streams": number, "group_size": size, "through": through, **values}


def _null_inference(num_envs: int, batch_size: int) -> CentralInference:
    """Build central inference that batches observations, answers with zeros and records nothing."""
    thread = ActingThread(
        act_step=_NullActStep(batch_size),  # type: ignore[arg-type]
        cursor=UnrollCursor(np.zeros(num_envs, bool), 2, 1, SlotPool(1), False),
        queue=UnrollQueue(1),
        batcher=Batcher(batch_size, max_wait=0.002),
    )
    return CentralInference(ENV_SPEC, Membership(num_envs, 0, 60.0), [thread])


class _NullActStep:
    """Copies observations into a batch, as the act step does, and answers with zeros."""

    padding = 0

    def __init__(self, batch_size: int):
        self._staging = Staging(ENV_SPEC, batch_size)
        self._actions = np.zeros(batch_size, ENV_SPEC.action.tensor.dtype)

    def __call__(
        self, env_ids: np.ndarray, restarted: np.ndarray, writes: StepWrites, outputs: Sequence[EnvOutput]
    ) -> np.ndarray:
        self._staging.fill(outputs)
        return self._actions[: len(env_ids)]


def _values(window: streams.Window, group_size: int) -> dict[str, float]:
    observations = window.messages * group_size
    return {
        "messages": window.messages / window.seconds,
        "observations": observations / window.seconds,
        "megabytes": window.messages * StepCodec(ENV_SPEC, group_size).payload_bytes / window.seconds / 1e6,
        "server_thread_us": 1e6 * window.server_thread_cpu / window.messages,
        "inference_thread_us": 1e6 * window.inference_thread_cpu / observations,
        "server_us": 1e6 * window.server_cpu / observations,
        "client_us": 1e6 * window.client_cpu / observations,
    }


def table(result: dict[str, Any]) -> str:
    heads = ["envs per\nmessage", "streams", "through", "messages\n/s", "obs.\n/s", "MB/s"]
    heads += ["server thr.\nµs/message", "infer. thr.\nµs/obs.", "server\nµs/obs.", "client\nµs/obs."]
    values = ("messages", "observations", "megabytes", "server_thread_us", "inference_thread_us", "server_us")
    rows = []
    for row in result["server"]:
        measured = [median(row[name]) for name in (*values, "client_us")]
        rows.append([str(row["group_size"]), str(row["streams"]), row["through"], *measured])
    return columns(heads, rows)
