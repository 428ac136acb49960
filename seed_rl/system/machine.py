"""The processor and the versions of packages on which speed and result of a computation depend."""

import contextlib
import glob
import math
import os
import pathlib
import platform
from importlib import metadata

from seed_rl import __version__
from seed_rl.system.host_memory import control_groups
from seed_rl.system.native_output import ENVIRONMENT

_PACKAGES = ("tensorflow", "keras", "numpy", "gymnasium")
_SIMULATORS = ("ale-py", "envpool", "gfootball", "mujoco", "box2d", "pettingzoo")
_BFLOAT16 = ("avx512_bf16", "amx_bf16", "bf16")  # the last one is ARM's
_CPUINFO = "/proc/cpuinfo"
_INSTRUCTIONS = ("avx", "avx2", "fma", "avx512f", "avx512_vnni", "asimd", "sve", *_BFLOAT16)


def has_tpu() -> bool:
    """Whether there are device files of TPUs, by which they can be found without TensorFlow."""
    return any(map(glob.glob, ("/dev/accel*", "/dev/vfio/[0-9]*")))


def cores(root: str = "/") -> int:
    """Return the number of cores of this process's affinity, or fewer in a limited group; `root` has /proc and /sys."""
    found = [float(len(os.sched_getaffinity(0)))]
    for group, _ in control_groups(root, "cpu"):
        numbers: list[str] = []  # microseconds of CPU time, and of the period
        for name in ("cpu.max", "cpu.cfs_quota_us", "cpu.cfs_period_us"):
            with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                numbers += pathlib.Path(group, name).read_text().split()
        if len(numbers) == 2 and numbers[0] not in ("max", "-1"):
            found.append(float(numbers[0]) / float(numbers[1]))
    return max(1, math.ceil(min(found)))


def processor() -> str:
    """Return the name of the processor, which in a cloud may be that of a whole family."""
    return _field("model name") or platform.machine()


def instructions() -> list[str]:
    """Return the instruction sets of the processor that change how fast TensorFlow computes and how it rounds."""
    found = (_field("flags") or _field("Features")).split()
    return [name for name in _INSTRUCTIONS if name in found]


def cpu_description() -> str:
    """Return the name of the processor, its instruction sets, and how far oneDNN is allowed to use them."""
    newest = os.environ.get("ONEDNN_MAX_CPU_ISA", os.environ.get("DNNL_MAX_CPU_ISA", "")).upper()
    limit = f"; oneDNN up to {newest}" if newest else ""
    return f"{processor()} ({', '.join(instructions())}{limit})"


def uses_onednn() -> bool:
    """Whether TensorFlow computes with oneDNN's kernels in this process, after `load_tensorflow`."""
    name = "TF_ENABLE_ONEDNN_OPTS"
    return os.environ.get(name, ENVIRONMENT[name]).lower() in ("1", "true")


def multiplies_bfloat16() -> bool:
    """Whether the processor has instructions for products of bfloat16; it emulates them otherwise."""
    return not set(_BFLOAT16).isdisjoint(instructions())


def _field(name: str) -> str:
    """Return the first value of a field that the kernel reports for each core; "" if there is none."""
    with open(_CPUINFO, encoding="utf-8") as file:
        return next((line.partition(":")[2].strip() for line in file if line.partition("\t")[0] == name), "")


def versions() -> dict[str, str]:
    """Return the versions of this package and of those that compute or simulate, as far as they are installed."""
    found = {"seed_rl": __version__, "python": platform.python_version()}
    for package in (*_PACKAGES, *_SIMULATORS):
        with contextlib.suppress(metadata.PackageNotFoundError):
            found[package] = metadata.version(package)
    return found
