"""Chooses the memory of a replay, on the accelerator or on the host."""

import logging
import math
from collections.abc import Mapping

import tensorflow as tf
from tensorflow.python.client import device_lib

from seed_rl.experiment import ConfigError
from seed_rl.experiment.sizes import Sizes
from seed_rl.system import devices
from seed_rl.system.devices import HOST
from seed_rl.system.host_memory import free_host_memory

_log = logging.getLogger(__name__)

# Bytes of an accelerator's memory for the update, which has not run when a replay is placed: its activations and
# gradients take several GB for published batches.
_ACCELERATOR_RESERVE = 4_000_000_000
# The rest is for later allocations: temporary tensors of larger batches, metrics and checkpoints, actors on the same
# host, and fragmentation.
_USABLE_PERCENT = 90


def place_store(sizes: Sizes, wanted: str, device: str = "", sharers: int = 1) -> str:
    """Choose the device for a store, such as "GPU:0", by the memory that is free now, and log it.

    `wanted` is a value of `Replay.placement`, `device` TensorFlow's name of the accelerator, or "" for the first; so
    many `sharers` have a store of this size in the host's memory. Raises a ConfigError if too little is free.
    """
    free = free_memory(device)
    device = choose_device(wanted, sizes, {**free, HOST: free[HOST] // sharers})
    _log.info("store of %s unrolls: %s on %s", f"{sizes.num_slots:,}", _in_bytes(sizes.store_nbytes), device)
    return device


def choose_device(wanted: str, sizes: Sizes, free: Mapping[str, int]) -> str:
    """`place_store`, given the free bytes of each device; there is the host, and no more than one accelerator."""
    device = next((name for name in free if name != HOST), HOST)
    candidates = {"auto": (device, HOST), "device": (device,), "host": (HOST,)}[wanted]
    reserved = {name: _ACCELERATOR_RESERVE if name != HOST and sizes.replay_capacity else 0 for name in candidates}
    usable = {name: max(0, free[name] * _USABLE_PERCENT // 100 - reserved[name]) for name in candidates}
    for name in candidates:
        if sizes.store_nbytes <= usable[name]:
            return name
    largest = max(candidates, key=lambda name: usable[name])
    need = f"{_in_bytes(sizes.store_nbytes)} ({_in_bytes(sizes.kept_nbytes)} each)"
    few = f"{sizes.num_slots:,} unrolls need {need}, and {_in_bytes(usable[largest])} of {largest} are free"
    others = sizes.store_nbytes - sizes.num_kept * sizes.kept_nbytes
    if sizes.replay_capacity and (fitting := (usable[largest] - others) // sizes.kept_nbytes) > 0:
        raise ConfigError(f"{few}: a Replay.capacity of at most {fitting:,} fits")
    raise ConfigError(f"{few}: shorten unrolls and what is kept before them (burn_in, n_steps), or use fewer of them")


def free_memory(accelerator: str = "") -> dict[str, int]:
    """Return free bytes by TensorFlow's name of the device: the host's, and those of an accelerator, "": the first."""
    free = {HOST: free_host_memory()}
    if devices.has_accelerator():
        name = accelerator or devices.first_accelerator()  # before `device_lib` sets the devices up
        limit = next(d.memory_limit for d in device_lib.list_local_devices() if d.name.endswith(f"device:{name}"))
        free[name] = max(0, limit - tf.config.experimental.get_memory_info(name)["current"])
    return free


def _in_bytes(nbytes: int) -> str:
    """Format a size with three digits: "87.6 GB"."""
    power = min(3, int(math.log10(max(nbytes, 1))) // 3)
    number = float(f"{nbytes / 1000**power:.3g}")
    return f"{number:,g} {('bytes', 'kB', 'MB', 'GB')[power]}"
