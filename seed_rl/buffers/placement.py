"""Where a replay's sequences are kept: in the accelerator's memory or the host's, whichever they fit into."""

from __future__ import annotations

import logging
import math
import os
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import tensorflow as tf
from tensorflow.python.client import device_lib

from seed_rl.devices import HOST, has_accelerator
from seed_rl.types import Unroll

_log = logging.getLogger(__name__)

WANTED = ("auto", "device", "host")

ACCELERATOR_RESERVE = 4_000_000_000
"""Bytes of an accelerator's memory that are kept for an update besides, which has not run when a replay is placed: its
activations and gradients take several GB for published batches."""

USABLE_PERCENT = 90
"""Of the memory that is free, what a replay may take. The rest is for what is allocated later: the temporary tensors of
larger batches, metrics and checkpoints, actors on the same host, and what an allocator loses between its blocks."""


class DoesNotFit(ValueError):
    """There is too little memory; the message says how much is needed, how much there is and what would fit."""


class StoreSize(NamedTuple):
    """How large the store of a replay is."""

    capacity: int
    """Sequences in the replay."""
    in_progress: int
    """Sequences that the store holds besides: unfinished, queued and spare ones."""
    nbytes_each: int
    """Bytes of one sequence."""

    @property
    def nbytes(self) -> int:
        """Bytes of all of them."""
        return (self.capacity + self.in_progress) * self.nbytes_each


def sequence_nbytes(step_spec: Unroll, length: int) -> int:
    """Bytes that one sequence takes in an `UnrollStore`.

    Args:
      step_spec: `tf.TensorSpec`s of one step of one environment, as `UnrollStore` takes them.
      length: steps per sequence.
    """

    def nbytes(specs: object) -> int:
        return sum(spec.dtype.size * spec.shape.num_elements() for spec in tf.nest.flatten(specs))

    return nbytes(step_spec.initial_state) + length * nbytes(step_spec._replace(initial_state=()))


def place_store(size: StoreSize, wanted: str, device: str = "", sharers: int = 1) -> str:
    """Chooses the device for the variables of a replay's store by the memory that is free now, and logs it.

    Args:
      size: of the store.
      wanted: "device" (the accelerator; the host where there is none), "host", or "auto": the device if the store fits
        there, else the host.
      device: TensorFlow's name of the accelerator; empty: the first.
      sharers: stores as large as this one among which the host's memory is divided.

    Returns:
      TensorFlow's name of the device: "GPU:0", "TPU:0" or "CPU:0".

    Raises:
      DoesNotFit: it fits nowhere where it is wanted.
      ValueError: `wanted` is none of the three.
    """
    free = free_memory(device)
    device = choose_device(wanted, size, {**free, HOST: free[HOST] // sharers})
    _log.info(
        "Replay of %s sequences: %s in %s memory (%s)",
        f"{size.capacity:,}",
        _in_bytes(size.nbytes),
        _memory_of(device),
        device,
    )
    return device


def choose_device(wanted: str, size: StoreSize, free: Mapping[str, int]) -> str:
    """`place_store`, given the free bytes of each device; there is the host, and at most one accelerator."""
    if wanted not in WANTED:
        raise ValueError(f"the place of a replay is one of {', '.join(WANTED)}, not {wanted}")
    device = next((name for name in free if name != HOST), HOST)
    candidates = {"auto": (device, HOST), "device": (device,), "host": (HOST,)}[wanted]
    reserved = {name: 0 if name == HOST else ACCELERATOR_RESERVE for name in candidates}
    usable = {name: max(0, free[name] * USABLE_PERCENT // 100 - reserved[name]) for name in candidates}
    for name in candidates:
        if size.nbytes <= usable[name]:
            return name
    largest = max(candidates, key=lambda name: usable[name])
    fitting = usable[largest] // size.nbytes_each - size.in_progress
    remedy = f"a Replay.capacity of at most {_round_down(fitting):,} fits" if fitting > 0 else "not even one fits"
    raise DoesNotFit(
        f"a replay of {size.capacity:,} sequences, with {size.in_progress:,} more in progress, needs "
        f"{_in_bytes(size.nbytes)} ({_in_bytes(size.nbytes_each)} each), and {_in_bytes(usable[largest])} of "
        f"{_memory_of(largest)} memory are free for it: {remedy}"
    )


def free_memory(accelerator: str = "") -> dict[str, int]:
    """Free bytes by TensorFlow's name of the device: the host's, and those of an accelerator if there is one.

    Args:
      accelerator: which; empty: the first.
    """
    free = {HOST: free_host_memory()}
    if has_accelerator():
        # Before anything else lists the devices, which would set them up without the options that tf.config was given.
        first = "GPU:0" if tf.config.list_logical_devices("GPU") else "TPU:0"
        name = accelerator or first
        limit = next(d.memory_limit for d in device_lib.list_local_devices() if d.name.endswith(f"device:{name}"))
        free[name] = max(0, limit - tf.config.experimental.get_memory_info(name)["current"])
    return free


def free_host_memory(root: str = "/") -> int:
    """Bytes that this process can still allocate on the host: what the machine has and its control groups allow.

    Args:
      root: where /proc and /sys are found.
    """
    available = _fields(os.path.join(root, "proc/meminfo"))["MemAvailable:"] * 1024
    return max(0, min([available, *_left_in_control_groups(root)]))


def _left_in_control_groups(root: str) -> Iterator[int]:
    """What each control group around this process that has a limit leaves, in bytes.

    What is used counts without the file cache that the kernel would drop first.
    """
    try:
        with open(os.path.join(root, "proc/self/cgroup"), encoding="utf-8") as file:
            lines = file.read().splitlines()
    except FileNotFoundError:
        return
    for line in lines:
        _, controllers, group = line.split(":", 2)
        if not controllers:
            mount, names = "sys/fs/cgroup", ("memory.max", "memory.current", "inactive_file")
        elif "memory" in controllers.split(","):
            names = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
            mount = "sys/fs/cgroup/memory"
        else:
            continue
        # The groups around it have limits too. Inside a container the path may be the one outside, of which only the
        # mount itself, the container's own group, is to be seen.
        parts = [part for part in group.split("/") if part]
        for depth in range(len(parts), -1, -1):
            left = _left_in(os.path.join(root, mount, *parts[:depth]), *names)
            if left is not None:
                yield left


def _left_in(group: str, limit_name: str, usage_name: str, cache_name: str) -> int | None:
    """The limit of one group minus what is used, in bytes; None if it has no limit or isn't there."""
    try:
        with open(os.path.join(group, limit_name), encoding="utf-8") as file:
            limit = file.read().strip()
        with open(os.path.join(group, usage_name), encoding="utf-8") as file:
            usage = int(file.read())
        cache = _fields(os.path.join(group, "memory.stat")).get(cache_name, 0)
    except (FileNotFoundError, NotADirectoryError):
        return None
    return None if limit == "max" else int(limit) - (usage - cache)


def _fields(path: str) -> dict[str, int]:
    """The numbers in a file of lines "name number ..."."""
    with open(path, encoding="utf-8") as file:
        rows = (line.split() for line in file)
        return {row[0]: int(row[1]) for row in rows if len(row) > 1}


def _memory_of(device: str) -> str:
    return "host" if device == HOST else "device"


def _round_down(count: int) -> int:
    """To three digits."""
    unit = 10 ** max(0, len(str(count)) - 3)
    return count // unit * unit


def _in_bytes(nbytes: int) -> str:
    """A size for people, with three digits: "87.6 GB"."""
    power = min(3, int(math.log10(max(nbytes, 1))) // 3)
    number = float(f"{nbytes / 1000**power:.3g}")
    return f"{number:,g} {('bytes', 'kB', 'MB', 'GB')[power]}"
