"""The processor and the versions of packages on which the result of a computation depends."""

import platform
from importlib import metadata

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
