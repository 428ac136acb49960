"""Installation checks that find missing parts and say how to get them."""

import functools
import os
import platform
import shutil
import sys
from collections.abc import Callable
from importlib import metadata
from typing import TypeAlias

from seed_rl import __version__
from seed_rl.cli.flags import DEFAULT_TCP_ADDRESS
from seed_rl.envs import registry
from seed_rl.envs.base import CannotBuild
from seed_rl.errors import Failure
from seed_rl.runs.run_directory import CannotUse
from seed_rl.system.entry_points import declarations
from seed_rl.system.host_memory import free_host_memory
from seed_rl.system.machine import cores, cpu_description
from seed_rl.system.native_output import CannotLoad, load_tensorflow
from seed_rl.transport.address import AddressError, check_free, parse_address

OK, OPTIONAL, BROKEN = "ok", "missing", "broken"
Result: TypeAlias = tuple[str, str]
"""One of these states, and the part that was found, or that is missing, and how to get it: `OPTIONAL` is missing but
not needed by everyone, with `BROKEN` nothing works."""

PLACES = "seed_rl.places"
"""The entry-point group in which packages declare functions of a log directory that is not on this machine: they return
one line about it, or None if they don't know such a place, and raise CannotUse or Failure."""


def examine(logdir: str | None = None) -> dict[str, Result]:
    """Run all checks, that of a planned run's directory included, with TensorFlow, and return results by subject."""
    planned = {"log directory": functools.partial(log_directory, logdir)} if logdir else {}
    return {subject: result(check) for subject, check in (CHECKS | planned).items()}


def result(check: Callable[[], Result]) -> Result:
    """Run a check; an error makes its result `BROKEN`."""
    try:
        return check()
    except Exception as error:  # a broken package may raise anything; still run the other checks
        return BROKEN, f"{type(error).__name__}: {' '.join(str(error).split())}"


def _python() -> Result:
    return OK, f"{platform.python_version()} at {sys.executable}; seed_rl {__version__}"


def _packages() -> Result:
    names = ("keras", "numpy", "gymnasium", "grpcio", "protobuf")
    return OK, ", ".join(f"{name} {metadata.version(name)}" for name in names)


def _tensorflow() -> Result:
    try:
        tf = load_tensorflow()
    except (CannotLoad, ImportError) as error:
        return BROKEN, f"{error}; install with scripts/setup_venv.sh runtime"
    from seed_rl.system import devices

    if devices.is_without_its_tpu():
        return BROKEN, f"{tf.__version__} is a TPU build but finds no TPU; on a CPU, install tensorflow"
    found = ", ".join(device.name.removeprefix("/physical_device:") for device in devices.accelerators())
    dtype, why = devices.native_dtype()
    text = f"{tf.__version__} on {found or 'the CPU'}; dtype = 'auto' is {dtype}: {why}"
    if not found and shutil.which("nvidia-smi"):
        return OPTIONAL, f"{text}; the NVIDIA GPU was not found: pip install 'tensorflow[and-cuda]'"
    return OK, text


def _machine() -> Result:
    return OK, f"{cores()} cores of {cpu_description()}, {free_host_memory() / 1e9:.0f} GB of memory free"


def room(place: str, min_gb: float, remedy: str) -> Result:
    """Check that a directory is writable and has `min_gb` free."""
    if not os.access(place, os.W_OK):
        return OPTIONAL, f"{place} is not writable: {remedy}"
    free = shutil.disk_usage(place).free / 1e9
    if free < min_gb:
        return OPTIONAL, f"{free:.2f} GB free in {place}: {remedy}"
    return OK, f"{free:.3g} GB free in {place}"


def log_directory(given: str | None = None) -> Result:
    """Check that a run can be stored in a place, by default in `runs`."""
    place = given or "runs"
    try:
        for entry in declarations(PLACES):
            if found := entry.load()(place):
                return OK, found
    except (CannotUse, Failure) as error:
        return BROKEN, str(error)
    place = os.path.abspath(place)
    while not os.path.lexists(place):  # a run creates missing directories
        place = os.path.dirname(place)
    if not os.path.isdir(place) or not os.access(place, os.W_OK):
        return BROKEN if given else OPTIONAL, f"{place} is not a writable directory: choose another --logdir"
    return room(place, 5.0, "choose another --logdir")


def port(address: str = DEFAULT_TCP_ADDRESS) -> Result:
    """Check that a learner can listen on an address."""
    try:
        check_free(parse_address(address))
    except AddressError as error:
        return OPTIONAL, f"{error}: choose another --server_address"
    return OK, f"{address} is free"


def suite(name: str) -> Result:
    """Check that environments of a suite can be built with its default settings, as far as packages go."""
    try:
        registry.suite(name)().check_packages()
    except (CannotBuild, ImportError) as error:
        return OPTIONAL, str(error)
    return OK, "installed"


_SHARED = "needed by environments in worker processes: docker run --shm-size=1g"  # containers default to 0.06 GB
CHECKS: dict[str, Callable[[], Result]] = {
    "Python": _python,
    "TensorFlow": _tensorflow,
    "packages": _packages,
    "machine": _machine,
    "disk": log_directory,
    "shared memory": functools.partial(room, "/dev/shm", 0.25, _SHARED),
    "port": port,
    **{f"suite {name}": functools.partial(suite, name) for name in registry.names()},
}
