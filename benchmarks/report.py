"""What a benchmark leaves behind: a JSON file that says what was measured, where and with what."""

from __future__ import annotations

import datetime
import json
import os
import pathlib
import platform
import subprocess
from collections.abc import Mapping, Sequence
from importlib import metadata
from typing import Any

import psutil

from seed_rl import __version__
from seed_rl.files import complete_or_absent
from seed_rl.launch.native_output import import_quietly

LIBRARIES = ("tensorflow", "grpcio", "ale-py", "numpy")
"""Their versions go into every report."""


def report(
    name: str, command: Sequence[str], arguments: Mapping[str, Any], result: Mapping[str, Any]
) -> dict[str, Any]:
    """The whole content of a JSON file, its numbers with six digits: no clock here is good for more.

    Args:
      name: of the benchmark.
      command: the command line, without the program.
      arguments: every flag's value.
      result: what `measure` returned.
    """
    content = {
        "benchmark": name,
        "command": " ".join(["seed_rl", *command]),
        "arguments": dict(arguments),
        "version": __version__,
        "commit": commit(),
        "python": platform.python_version(),
        "libraries": {library: metadata.version(library) for library in LIBRARIES},
        "hardware": hardware(),
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "result": dict(result),
    }
    return rounded(content)


def write(path: str, content: Mapping[str, Any]) -> None:
    """Writes JSON; the file is whole or not there."""
    with complete_or_absent(path) as file:
        file.write(f"{json.dumps(content, indent=2)}\n".encode())


def rounded(value: Any) -> Any:
    """JSON-able data with six significant digits in every float, and lists for tuples, as they will be in the file."""
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, Mapping):
        return {key: rounded(child) for key, child in value.items()}
    if isinstance(value, list | tuple):
        return [rounded(child) for child in value]
    return value


def hardware() -> dict[str, Any]:
    """Of this machine: `cores` that this process may use, `processor`, `memory_gb` (10^9 bytes), `accelerators`."""
    return {
        "cores": len(os.sched_getaffinity(0)),
        "processor": processor(),
        "memory_gb": round(psutil.virtual_memory().total / 1e9, 1),
        "accelerators": _accelerators(),
    }


def processor() -> str:
    """The name of the processor."""
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        names = [line.partition(":")[2].strip() for line in file if line.startswith("model name")]
    return names[0] if names else platform.machine()


def _accelerators() -> list[str]:
    """Names of the GPUs and TPUs that TensorFlow sees."""
    tf = import_quietly("tensorflow")  # here, as the benchmark may have needed none

    return [
        str(tf.config.experimental.get_device_details(device).get("device_name", device.name))
        for device in tf.config.list_physical_devices()
        if device.device_type != "CPU"
    ]


def commit() -> str | None:
    """The git commit of this code, with "+" after it if the code has been changed since; None if it is not known."""
    root = pathlib.Path(__file__).resolve().parents[2]
    if not (root / ".git").exists():  # installed, perhaps into a directory of some other repository
        return None

    def git(*arguments: str) -> str:
        return subprocess.run(["git", "-C", str(root), *arguments], capture_output=True, text=True, check=True).stdout

    try:
        changed = git("status", "--porcelain", "--untracked-files=no", "--", "*.py", "*.gin")
        return git("rev-parse", "HEAD").strip() + ("+" if changed else "")
    except (OSError, subprocess.CalledProcessError):  # no git here, or a repository of another user
        return None
