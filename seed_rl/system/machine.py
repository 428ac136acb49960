"""The processor, threads, environment variables and versions on which the result of a computation depends."""

from __future__ import annotations

import os
import platform
from importlib import metadata
from typing import Any

from seed_rl import __version__

_PACKAGES = (
    "tensorflow",
    "keras",
    "numpy",
    "gymnasium",
    "ale-py",
    "envpool",
    "gfootball",
    "mujoco",
    "box2d",
    "pettingzoo",
)
_ENVIRONMENT = ("XLA_FLAGS", "TF_XLA_FLAGS", "TF_ENABLE_ONEDNN_OPTS", "TF_NUM_INTRAOP_THREADS", "NVIDIA_TF32_OVERRIDE")
"""Environment variables with which TensorFlow computes differently."""


def processor() -> str:
    """Return the name of the processor."""
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        names = [line.partition(":")[2].strip() for line in file if line.startswith("model name")]
    return names[0] if names else platform.machine()


def versions() -> dict[str, str]:
    """Return the versions of this package and of those that compute or simulate, as far as they are installed."""
    found = {"seed_rl": __version__, "python": platform.python_version()}
    for package in _PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return found


def threads() -> int:
    """Return the number of cores this process may use, which TensorFlow's threads follow."""
    return len(os.sched_getaffinity(0))


def make_deterministic(threads: int) -> dict[str, Any]:
    """Make TensorFlow's computations repeatable for the rest of this process; return the machine that they depend on.

    Args:
      threads: threads within an operation, and of operations at a time.

    Raises:
      RuntimeError: TensorFlow has been used with another number of threads.
    """
    import tensorflow as tf

    from seed_rl.system import devices

    config = tf.config.threading
    if (config.get_intra_op_parallelism_threads(), config.get_inter_op_parallelism_threads()) != (threads, threads):
        config.set_intra_op_parallelism_threads(threads)
        config.set_inter_op_parallelism_threads(threads)
    tf.config.experimental.enable_op_determinism()
    accelerators = [tf.config.experimental.get_device_details(device) for device in devices.accelerators()]
    names = [str(details.get("device_name", "TPU")) for details in accelerators]
    environment = {name: os.environ[name] for name in _ENVIRONMENT if os.environ.get(name)}
    return {"processor": processor(), "threads": threads, "accelerators": names, "environment": environment}
