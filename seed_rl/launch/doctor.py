"""Checks an installation and says what is missing and how to get it."""

from __future__ import annotations

import importlib
import importlib.util
import os
import platform
import resource
import shutil
import socket
import sys
import tempfile
from collections.abc import Callable
from importlib import metadata
from typing import NamedTuple

from seed_rl import __version__
from seed_rl.envs import registry
from seed_rl.envs.base import CannotBuild
from seed_rl.files import reason
from seed_rl.launch.flags import DEFAULT_TCP_ADDRESS
from seed_rl.launch.native_output import load_tensorflow
from seed_rl.object_store import CannotReach, check_writable, files_in, is_url

OK, OPTIONAL, BROKEN = "ok", "missing", "broken"

_PACKAGES = ("keras", "numpy", "gymnasium", "grpcio", "protobuf")
_RUNS = "runs"  # where runs are stored unless --logdir says otherwise
_STORES = {"gcsfs": "gs://", "s3fs": "s3://", "adlfs": "az://"}
"""Packages that fsspec needs for kinds of object stores."""
_SHARED_MEMORY = "/dev/shm"
_FILES = 4096  # that a learner of a thousand actors has open, with some to spare
_DISK_GB = 5.0
_SHARED_GB = 0.25  # containers have 0.06 by default


class Finding(NamedTuple):
    """What a check has found."""

    state: str
    """`OK`; `OPTIONAL`: something that not everybody needs isn't there; `BROKEN`: nothing will work."""
    what: str
    text: str
    """What is there, or what is missing and how to get it."""


def examine(logdir: str | None = None) -> list[Finding]:
    """All checks, in the order in which one would look for a fault. Imports TensorFlow.

    Args:
      logdir: of a run that is to begin, on this machine or in an object store; looked at if given.
    """
    findings = [_finding(what, check) for what, check in _CHECKS.items()]
    if logdir:
        findings.append(_finding("log directory", lambda: _log_directory(logdir)))
    return findings


def _finding(what: str, check: Callable[[], tuple[str, str]]) -> Finding:
    try:
        state, text = check()
    except Exception as error:  # what is installed but broken raises all kinds; the other checks are to go on
        state, text = BROKEN, f"{type(error).__name__}: {' '.join(str(error).split())}"
    return Finding(state, what, text)


def _python() -> tuple[str, str]:
    text = f"{platform.python_version()} at {sys.executable}; seed_rl {__version__}"
    if not (3, 10) <= sys.version_info[:2] <= (3, 12):
        return BROKEN, f"{text}: Python 3.10, 3.11 or 3.12 is needed"
    return OK, text


def _packages() -> tuple[str, str]:
    return OK, ", ".join(f"{name} {metadata.version(name)}" for name in _PACKAGES)


def _tensorflow() -> tuple[str, str]:
    try:
        tf = load_tensorflow()
    except ImportError as error:
        return BROKEN, f"can't be imported ({error}): install with scripts/setup_venv.sh runtime"
    devices = [device.name.removeprefix("/physical_device:") for device in tf.config.list_physical_devices()]
    accelerators = [name for name in devices if not name.startswith("CPU")]
    text = f"{tf.__version__} on {', '.join(accelerators) or 'the CPU'}"
    if not accelerators and shutil.which("nvidia-smi"):
        return OPTIONAL, f"{text}; it doesn't find the NVIDIA GPU: pip install 'tensorflow[and-cuda]'"
    return OK, text


def _machine() -> tuple[str, str]:
    import psutil

    memory = psutil.virtual_memory()
    cores = len(os.sched_getaffinity(0))
    return OK, f"{cores} cores, {memory.available / 1e9:.0f} of {memory.total / 1e9:.0f} GB of memory free"


def _disk() -> tuple[str, str]:
    return _room_in(os.path.abspath(_RUNS if os.path.isdir(_RUNS) else os.curdir))


def _log_directory(place: str) -> tuple[str, str]:
    if not is_url(place):
        place = os.path.abspath(place)
        while not os.path.exists(place):  # a run makes what is missing
            place = os.path.dirname(place)
        return _room_in(place)
    try:
        files = files_in(place)
        check_writable(place)
    except CannotReach as error:
        return BROKEN, str(error)
    return OK, f"{place} can be read and written; {f'{len(files)} files' if files else 'nothing'} in it"


def _room_in(place: str) -> tuple[str, str]:
    if not os.access(place, os.W_OK):
        return OPTIONAL, f"{place} can't be written: --logdir chooses another place"
    free = shutil.disk_usage(place).free / 1e9
    if free < _DISK_GB:
        return OPTIONAL, f"{free:.1f} GB free in {place}: --logdir may be on another disk"
    return OK, f"{free:.0f} GB free in {place}"


def _shared_memory() -> tuple[str, str]:
    if not os.path.isdir(_SHARED_MEMORY) or not os.access(_SHARED_MEMORY, os.W_OK):
        return OPTIONAL, f"no {_SHARED_MEMORY} to write to: environments with processes of their own use {_temporary()}"
    free = shutil.disk_usage(_SHARED_MEMORY).free / 1e9
    if free < _SHARED_GB:
        return OPTIONAL, f"{free:.2f} GB free in {_SHARED_MEMORY}, little for DeepMind Lab: docker run --shm-size=1g"
    return OK, f"{free:.1f} GB free in {_SHARED_MEMORY}"


def _temporary() -> str:
    return tempfile.gettempdir()


def _files() -> tuple[str, str]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < _FILES:
        most = 4 * _FILES if hard == resource.RLIM_INFINITY else min(hard, 4 * _FILES)
        return OPTIONAL, f"{soft:,} may be open, a learner of a thousand actors needs more: ulimit -n {most}"
    return OK, f"{soft:,} may be open"


def _sockets() -> tuple[str, str]:
    with tempfile.TemporaryDirectory(prefix="seed_rl-") as directory, socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.bind(os.path.join(directory, "socket"))
        except OSError as error:
            return BROKEN, f"none in {_temporary()} ({reason(error)}): TMPDIR chooses another place"
    return OK, f"work in {_temporary()}"


def _port() -> tuple[str, str]:
    host, port = DEFAULT_TCP_ADDRESS.rsplit(":", 1)
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, int(port)))
        except OSError as error:
            return OPTIONAL, f"{DEFAULT_TCP_ADDRESS} is taken ({reason(error)}): --server_address chooses another"
    return OK, f"{DEFAULT_TCP_ADDRESS} is free"


def _ffmpeg() -> tuple[str, str]:
    imageio_ffmpeg = importlib.import_module("imageio_ffmpeg")
    try:
        return OK, f"{imageio_ffmpeg.get_ffmpeg_version()} (films of seed_rl play)"
    except RuntimeError:
        return OPTIONAL, "not found, seed_rl play can't write .mp4: pip install --force-reinstall imageio-ffmpeg"


def _suites() -> tuple[str, str]:
    found = registry.names()
    broken = []
    for name in found:
        try:
            registry.suite(name)
        except (CannotBuild, ImportError) as error:
            broken.append(f"{name}: {error}")
    return (OPTIONAL, "; ".join(broken)) if broken else (OK, ", ".join(found))


def _roms() -> tuple[str, str]:
    from seed_rl.envs.atari import ATARI_57, games

    missing = sorted(set(ATARI_57) - set(games()))
    if missing:
        return OPTIONAL, f"ale-py lacks the ROMs of {', '.join(missing)}: pip install --force-reinstall ale-py"
    return OK, f"ale-py {metadata.version('ale-py')} with {len(games())} ROMs"


def _object_stores() -> tuple[str, str]:
    if importlib.util.find_spec("fsspec") is None:
        return OPTIONAL, "not installed: pip install 'seed_rl[bucket]', for --logdir=gs://... or s3://..."
    found = [package for package in _STORES if importlib.util.find_spec(package)]
    if not found:
        return OPTIONAL, f"fsspec alone: pip install {', '.join(f'{name} ({kind})' for name, kind in _STORES.items())}"
    return OK, f"fsspec with {', '.join(f'{name} ({_STORES[name]})' for name in found)}"


def _package(module: str, how: str) -> Callable[[], tuple[str, str]]:
    def check() -> tuple[str, str]:
        if importlib.util.find_spec(module) is None:
            return OPTIONAL, f"not installed: {how}"
        return OK, f"{module} is installed"

    return check


_CHECKS: dict[str, Callable[[], tuple[str, str]]] = {
    "Python": _python,
    "TensorFlow": _tensorflow,
    "packages": _packages,
    "machine": _machine,
    "disk": _disk,
    "shared memory": _shared_memory,
    "open files": _files,
    "unix sockets": _sockets,
    "port": _port,
    "ffmpeg": _ffmpeg,
    "suites": _suites,
    "Atari": _roms,
    "football": _package("gfootball", "docs/football.md; or pip install 'seed_rl[envpool]'"),
    "EnvPool": _package("envpool", "pip install 'seed_rl[envpool]' (Python 3.11 or newer)"),
    "DeepMind Lab": _package("deepmind_lab", "docs/dmlab.md; docker/dmlab.Dockerfile"),
    "object stores": _object_stores,
    "Weights & Biases": _package("wandb", "pip install 'seed_rl[wandb]'"),
}
