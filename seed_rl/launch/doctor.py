"""Checks an installation and says what is missing and how to get it."""

from __future__ import annotations

import importlib.util
import os
import platform
import resource
import shutil
import socket
import sys
import tempfile
from collections.abc import Callable
from typing import NamedTuple

from seed_rl import __version__
from seed_rl.envs import registry
from seed_rl.envs.registry import CannotBuild
from seed_rl.launch.cli import DEFAULT_TCP_ADDRESS

OK, OPTIONAL, BROKEN = "ok", "missing", "broken"

_FILES = 4096  # that a learner of a thousand actors has open, with some to spare
_DISK_GB = 5.0


class Finding(NamedTuple):
    """What a check has found."""

    state: str
    """`OK`; `OPTIONAL`: something that not everybody needs isn't there; `BROKEN`: nothing will work."""
    what: str
    text: str
    """What is there, or what is missing and how to get it."""


def examine() -> list[Finding]:
    """All checks, in the order in which one would look for a fault. Imports TensorFlow."""
    return [check() for check in _CHECKS]


def _python() -> Finding:
    text = f"{platform.python_version()} at {sys.executable}; seed_rl {__version__}"
    return Finding(OK if (3, 10) <= sys.version_info[:2] <= (3, 12) else BROKEN, "Python", text)


def _tensorflow() -> Finding:
    try:
        import tensorflow as tf
    except ImportError as error:
        return Finding(BROKEN, "TensorFlow", f"can't be imported ({error}): install with scripts/setup_venv.sh runtime")
    devices = [device.name.removeprefix("/physical_device:") for device in tf.config.list_physical_devices()]
    accelerators = [name for name in devices if not name.startswith("CPU")]
    text = f"{tf.__version__} on {', '.join(accelerators) or 'the CPU'}"
    if not accelerators and shutil.which("nvidia-smi"):
        text += "; there is an NVIDIA driver, but TensorFlow finds no GPU: pip install 'tensorflow[and-cuda]'"
    return Finding(OK, "TensorFlow", text)


def _cores() -> Finding:
    import psutil

    memory = psutil.virtual_memory()
    text = f"{os.cpu_count()} cores, {memory.available / 1e9:.0f} of {memory.total / 1e9:.0f} GB of memory free"
    return Finding(OK, "machine", text)


def _disk() -> Finding:
    free = shutil.disk_usage(os.getcwd()).free / 1e9
    if free < _DISK_GB:
        return Finding(OPTIONAL, "disk", f"{free:.1f} GB free in {os.getcwd()}: --logdir may be on another disk")
    return Finding(OK, "disk", f"{free:.0f} GB free in {os.getcwd()}")


def _roms() -> Finding:
    from seed_rl.envs.atari import ATARI_57, games

    missing = sorted(set(ATARI_57) - set(games()))
    if missing:
        return Finding(OPTIONAL, "Atari", f"ale-py lacks the ROMs of {', '.join(missing)}")
    return Finding(OK, "Atari", f"{len(games())} ROMs")


def _football() -> Finding:
    return _package("football", "gfootball", "docs/football.md; or pip install 'seed_rl[envpool]'")


def _envpool() -> Finding:
    return _package("EnvPool", "envpool", "pip install 'seed_rl[envpool]'")


def _lab() -> Finding:
    return _package("DeepMind Lab", "deepmind_lab", "docs/dmlab.md; docker/dmlab.Dockerfile")


def _package(what: str, module: str, how: str) -> Finding:
    if importlib.util.find_spec(module) is None:
        return Finding(OPTIONAL, what, f"not installed: {how}")
    return Finding(OK, what, f"{module} is installed")


def _suites() -> Finding:
    found = registry.names()
    broken = []
    for name in found:
        try:
            registry.suite(name)
        except CannotBuild as error:
            broken.append(f"{name}: {error}")
    if broken:
        return Finding(OPTIONAL, "suites", "; ".join(broken))
    return Finding(OK, "suites", ", ".join(found))


def _port() -> Finding:
    host, port = DEFAULT_TCP_ADDRESS.rsplit(":", 1)
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, int(port)))
        except OSError as error:
            text = f"{DEFAULT_TCP_ADDRESS} can't be served ({error.strerror}): --server_address chooses another"
            return Finding(OPTIONAL, "port", text)
    return Finding(OK, "port", f"{DEFAULT_TCP_ADDRESS} is free")


def _sockets() -> Finding:
    with tempfile.TemporaryDirectory(prefix="seed_rl-") as directory, socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.bind(os.path.join(directory, "socket"))
        except OSError as error:
            return Finding(BROKEN, "unix sockets", f"none in {directory} ({error}): TMPDIR chooses another place")
    return Finding(OK, "unix sockets", "work")


def _files() -> Finding:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < _FILES:
        text = f"{soft} may be open, a learner of a thousand actors needs more: ulimit -n {min(hard, 4 * _FILES)}"
        return Finding(OPTIONAL, "files", text)
    return Finding(OK, "files", f"{soft:,} may be open")


_CHECKS: tuple[Callable[[], Finding], ...] = (
    _python,
    _tensorflow,
    _cores,
    _disk,
    _files,
    _sockets,
    _port,
    _suites,
    _roms,
    _football,
    _envpool,
    _lab,
)
