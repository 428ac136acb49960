"""Checks of an installation, which find missing parts and say how to get them."""

from __future__ import annotations

import importlib
import os
import platform
import resource
import shutil
import socket
import sys
import tempfile
from collections.abc import Callable
from importlib import metadata
from importlib.util import find_spec
from typing import Any, TypeAlias

from seed_rl import __version__
from seed_rl.cli.flags import DEFAULT_TCP_ADDRESS
from seed_rl.envs import pool, registry
from seed_rl.envs.base import CannotBuild
from seed_rl.system.files import reason, socket_directory
from seed_rl.system.native_output import load_tensorflow
from seed_rl.system.object_store import CannotReach, check_writable, files_in, is_url

OK, OPTIONAL, BROKEN = "ok", "missing", "broken"
Result: TypeAlias = tuple[str, str]
"""One of these states, and the part that was found, or that is missing, and how to get it: `OPTIONAL` is missing but
not needed by everyone, with `BROKEN` nothing works."""

_STORES = {"gcsfs": "gs://", "s3fs": "s3://", "adlfs": "az://"}
"""Packages that fsspec needs for kinds of object stores."""
_FILES = 4096  # more than a learner of a thousand actors has open
_DISK_GB = 5.0
_SHARED_GB = 0.25  # containers have 0.06 by default


def examine(logdir: str | None = None) -> dict[str, Result]:
    """The results of all checks, in the order in which one would look for a fault. Imports TensorFlow.

    Args:
      logdir: of a future run, on this machine or in an object store; checked if given.
    """
    findings = {subject: result(check) for subject, check in _CHECKS.items()}
    return {**findings, "log directory": result(lambda: log_directory(logdir))} if logdir else findings


def result(check: Callable[[], Result]) -> Result:
    """The result of a check, which is `BROKEN` if it raises an error."""
    try:
        return check()
    except Exception as error:  # a broken package raises all kinds; the other checks still run
        return BROKEN, f"{type(error).__name__}: {' '.join(str(error).split())}"


def _python() -> Result:
    supported = (3, 10) <= sys.version_info[:2] <= (3, 12)
    text = f"{platform.python_version()} at {sys.executable}; seed_rl {__version__}"
    return (OK, text) if supported else (BROKEN, f"{text}: Python 3.10, 3.11 or 3.12 is needed")


def _packages() -> Result:
    names = ("keras", "numpy", "gymnasium", "grpcio", "protobuf")
    return OK, ", ".join(f"{name} {metadata.version(name)}" for name in names)


def _tensorflow() -> Result:
    try:
        tf = load_tensorflow()
    except ImportError as error:
        return BROKEN, f"{error}; install with scripts/setup_venv.sh runtime"
    from seed_rl.system import devices

    found = ", ".join(_described(tf, device) for device in devices.accelerators())
    text = f"{tf.__version__} on {found or 'the CPU'}"
    if devices.is_without_its_tpu():
        return BROKEN, f"{tf.__version__} for TPUs, and finds none: on a CPU, install tensorflow"
    if not found and shutil.which("nvidia-smi"):
        return OPTIONAL, f"{text}; it doesn't find the NVIDIA GPU: pip install 'tensorflow[and-cuda]'"
    return OK, text


def _described(tf: Any, device: Any) -> str:
    """An accelerator, and for a GPU the versions that TensorFlow was built for."""
    name = device.name.removeprefix("/physical_device:")
    if device.device_type != "GPU":
        return str(name)
    details, build = tf.config.experimental.get_device_details(device), tf.sysconfig.get_build_info()
    capability = ".".join(map(str, details.get("compute_capability", ("unknown",))))
    versions = f"CUDA {build.get('cuda_version', 'unknown')}, cuDNN {build.get('cudnn_version', 'unknown')}"
    return f"{name} ({details.get('device_name', 'unknown')}, compute capability {capability}, {versions})"


def _machine() -> Result:
    import psutil

    memory = psutil.virtual_memory()
    cores = len(os.sched_getaffinity(0))
    return OK, f"{cores} cores, {memory.available / 1e9:.0f} of {memory.total / 1e9:.0f} GB of memory free"


def room(place: str, min_gb: float, remedy: str) -> Result:
    """Whether there is this much room to write in a directory."""
    if not os.access(place, os.W_OK):
        return OPTIONAL, f"{place} can't be written: {remedy}"
    free = shutil.disk_usage(place).free / 1e9
    if free < min_gb:
        return OPTIONAL, f"{free:.2f} GB free in {place}: {remedy}"
    return OK, f"{free:.3g} GB free in {place}"


def log_directory(place: str = "runs") -> Result:
    """Whether a run can be stored in a place."""
    if is_url(place):
        try:
            files = files_in(place)
            check_writable(place)
        except CannotReach as error:
            return BROKEN, str(error)
        return OK, f"{place} can be read and written; {f'{len(files)} files' if files else 'nothing'} in it"
    place = os.path.abspath(place)
    while not os.path.exists(place):  # a run makes missing directories
        place = os.path.dirname(place)
    return room(place, _DISK_GB, "--logdir chooses another place")


def open_files() -> Result:
    """Whether enough files may be open at a time."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < _FILES:
        most = 4 * _FILES if hard == resource.RLIM_INFINITY else min(hard, 4 * _FILES)
        return OPTIONAL, f"{soft:,} may be open, a learner of a thousand actors needs more: ulimit -n {most}"
    return OK, f"{soft:,} may be open"


def _sockets() -> Result:
    try:
        with socket_directory() as directory, socket.socket(socket.AF_UNIX) as probe:
            probe.bind(os.path.join(directory, "socket"))
    except OSError as error:
        return BROKEN, f"none in {tempfile.gettempdir()} ({reason(error)}): TMPDIR chooses another place"
    return OK, f"work in {os.path.dirname(directory)}"


def port(address: str = DEFAULT_TCP_ADDRESS) -> Result:
    """Whether a learner can listen at an address."""
    host, number = address.rsplit(":", 1)
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, int(number)))
        except OSError as error:
            return OPTIONAL, f"{address} is taken ({reason(error)}): --server_address chooses another"
    return OK, f"{address} is free"


def _ffmpeg() -> Result:
    imageio_ffmpeg = importlib.import_module("imageio_ffmpeg")
    try:
        return OK, f"{imageio_ffmpeg.get_ffmpeg_version()} (films of seed_rl play)"
    except RuntimeError:
        return OPTIONAL, "not found, seed_rl play can't write .mp4: pip install --force-reinstall imageio-ffmpeg"


def _suites() -> Result:
    broken = []
    for name in registry.names():
        try:
            registry.suite(name)
        except (CannotBuild, ImportError) as error:
            broken.append(f"{name}: {error}")
    return (OPTIONAL, "; ".join(broken)) if broken else (OK, ", ".join(registry.names()))


def _roms() -> Result:
    from seed_rl.envs.atari import ATARI_57, games

    missing = sorted(set(ATARI_57) - set(games()))
    if missing:
        return OPTIONAL, f"ale-py lacks the ROMs of {', '.join(missing)}: pip install --force-reinstall ale-py"
    return OK, f"ale-py {metadata.version('ale-py')} with {len(games())} ROMs"


def _object_stores() -> Result:
    if find_spec("fsspec") is None:
        return OPTIONAL, "not installed: pip install fsspec, for --logdir=gs://... or s3://..."
    found = [package for package in _STORES if find_spec(package)]
    if not found:
        return OPTIONAL, f"fsspec alone: pip install {', '.join(f'{name} ({kind})' for name, kind in _STORES.items())}"
    return OK, f"fsspec with {', '.join(f'{name} ({_STORES[name]})' for name in found)}"


def package(module: str, how: str) -> Result:
    """Whether a package is there; `how` says how to get it."""
    return (OK, f"{module} is installed") if find_spec(module) else (OPTIONAL, f"not installed: {how}")


_CHECKS: dict[str, Callable[[], Result]] = {
    "Python": _python,
    "TensorFlow": _tensorflow,
    "packages": _packages,
    "machine": _machine,
    "disk": log_directory,
    "shared memory": lambda: room(
        "/dev/shm", _SHARED_GB, "environments in processes of their own need it; docker run --shm-size=1g"
    ),
    "open files": open_files,
    "unix sockets": _sockets,
    "port": port,
    "ffmpeg": _ffmpeg,
    "suites": _suites,
    "Atari": _roms,
    "football": lambda: package("gfootball", "docs/football.md; or pip install envpool"),
    "EnvPool": lambda: package("envpool", pool.INSTALL),
    "DeepMind Lab": lambda: package("deepmind_lab", "docs/dmlab.md; docker/dmlab.Dockerfile"),
    "object stores": _object_stores,
    "Weights & Biases": lambda: package("wandb", "pip install wandb"),
}
