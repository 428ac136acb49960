"""The devices of the learner."""

import functools
import time
from typing import Any

import tensorflow as tf

from seed_rl.system.machine import multiplies_bfloat16

HOST = "CPU:0"
"""TensorFlow's name for the host."""


@functools.cache
def has_accelerator() -> bool:
    """Whether a GPU or TPU is present. With one, whole steps are compiled by XLA.

    On a CPU convolutions aren't: XLA's are slower there, 1.2 times for a small network forward, and 2 times and more
    for a deep one or its gradient.
    """
    return bool(accelerators())


def accelerators(kind: str = "") -> list[Any]:
    """The GPUs and the TPU cores that TensorFlow sees, `PhysicalDevice`s, or only those of a kind (`gpu`, `tpu`)."""
    kinds = (kind.upper(),) if kind else ("GPU", "TPU")
    return [device for each in kinds for device in tf.config.list_physical_devices(each)]


def first_accelerator() -> str:
    """TensorFlow's name of the first accelerator, such as "GPU:0"; "" if there is none."""
    # Logical devices first: other lists would set the devices up without the options that tf.config was given.
    return next((f"{kind}:0" for kind in ("GPU", "TPU") if tf.config.list_logical_devices(kind)), "")


def native_dtype() -> tuple[str, str]:
    """Return the faster of `TrunkConfig.dtype`'s number formats on the learner's device, and the reason.

    That is `mixed_bfloat16` where the device multiplies bfloat16 natively: emulated, it is several times slower than
    `float32`. CPUs with the instructions are timed, because not all of them gain: AMD's Zen 5 does, Intel's Emerald
    Rapids loses a third without AMX, which virtual machines may hide.
    """
    if not (found := accelerators()):
        native, why = False, "the CPU has no bfloat16 instructions"
        if multiplies_bfloat16():
            native = (rate := bfloat16_rate()) > 1.0
            why = f"the CPU multiplies bfloat16 {rate:.1f} times as fast as float32"
    elif found[0].device_type == "TPU":
        native, why = True, "TPUs multiply bfloat16"
    else:
        details = tf.config.experimental.get_device_details(found[0])
        native = (capability := details.get("compute_capability", (0, 0))) >= (8, 0)
        why = f"{details.get('device_name', 'the GPU')} has compute capability {'.'.join(map(str, capability))}"
    return "mixed_bfloat16" if native else "float32", why


@functools.cache
def bfloat16_rate() -> float:
    """Return the rate of products of bfloat16 matrices, per second of CPU time, as a multiple of float32's."""
    shortest = {tf.float32: float("inf"), tf.bfloat16: float("inf")}
    with tf.device(HOST):
        factors = {dtype: tf.ones([1024, 1024], dtype) for dtype in shortest}
        for _ in range(5):  # in turns, and the fastest of each: other processes may use the caches
            for dtype, factor in factors.items():
                start = time.process_time()
                tf.matmul(factor, factor).numpy()
                shortest[dtype] = min(shortest[dtype], time.process_time() - start)
    return shortest[tf.float32] / shortest[tf.bfloat16]


def is_without_its_tpu() -> bool:
    """Whether this is TensorFlow's build for TPUs on a machine without one: it can't compile for the CPU."""
    return bool(tf.config.list_physical_devices("TPU_SYSTEM")) and not accelerators()
