"""Reports of benchmarks: JSON with results, hardware and software versions, and text tables."""

import csv
import datetime
import json
import os
import pathlib
import platform
import re
import statistics
import subprocess
from collections.abc import Mapping, Sequence
from importlib import metadata
from typing import Any

import psutil

from seed_rl import __version__
from seed_rl.system.files import complete_or_absent
from seed_rl.system.machine import cpu_description

LIBRARIES = ("tensorflow", "grpcio", "ale-py", "numpy")  # whose versions are part of every report
COLUMNS = (
    *("env_frames", "seconds", "episode_return", "episode_length", "episodes", "eval/episode_return"),
    *("eval/episode_length", "frames_per_second", "learner_updates", "policy/entropy", "policy/mean_abs_advantage"),
    *("policy/mean_value", "policy_lag", "learning/explained_variance", "learning/clipped_share"),
    *("learning/clipped_mass", "learning/entropy_share", "replay/size", "replay/ratio", "q/abs_td_error", "q/value"),
    *("league/score", "league/members", "loss/total", "loss/entropy", "gradient_norm", "gradient_to_clip"),
    "learning_rate",
)
"""Metrics in the tables of recorded runs."""


def report(name: str, flags: Sequence[str], arguments: Mapping[str, Any], result: Mapping[str, Any]) -> dict[str, Any]:
    """Build the content of a benchmark's JSON file from its flags as given, the values of all flags and the result.

    Floats are rounded to six digits, the precision of the clocks.
    """
    content = {
        "benchmark": name,
        "command": without_paths(" ".join(["scripts/bench.sh", name, *flags])),
        "arguments": {key: _without_paths(value) for key, value in arguments.items()},
        "version": __version__,
        "commit": commit(),
        "python": platform.python_version(),
        "libraries": {library: metadata.version(library) for library in LIBRARIES},
        "hardware": hardware(),
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "result": dict(result),
    }
    return _rounded(content)


def without_paths(command: str) -> str:
    """Replace the absolute paths of a command's flags, which mean nothing on another machine."""
    return re.sub(r"""(^|[=\s,'"])/[^\s,'"]+""", r"\1PATH", command)


def _without_paths(value: Any) -> Any:
    if isinstance(value, str):
        return without_paths(value)
    return [_without_paths(each) for each in value] if isinstance(value, list | tuple) else value


def write(path: str, content: Mapping[str, Any]) -> None:
    """Write JSON; the file is complete or absent."""
    with complete_or_absent(path) as file:
        file.write(f"{json.dumps(content, indent=2)}\n".encode())


def write_table(rows: Sequence[Mapping[str, float]], path: str, known: Sequence[str] = COLUMNS) -> list[str]:
    """Write the metrics of a run as CSV; return its columns, the `known` ones that the run has."""
    names = [name for name in known if any(name in row for row in rows)]
    with open(path, "w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, names, extrasaction="ignore", lineterminator="\n")
        writer.writeheader()
        writer.writerows(_rounded({name: row[name] for name in names if name in row}) for row in rows)
    return names


def _rounded(value: Any) -> Any:
    """Round floats to six significant digits, and turn tuples into lists, as JSON does."""
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, Mapping):
        return {key: _rounded(child) for key, child in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(child) for child in value]
    return value


def hardware() -> dict[str, Any]:
    """Describe this machine: available `cores`, `processor`, `memory_gb` (10^9 bytes), `accelerators`."""
    import tensorflow as tf

    from seed_rl.system import devices

    details = [(tf.config.experimental.get_device_details(each), each.name) for each in devices.accelerators()]
    return {
        "cores": len(os.sched_getaffinity(0)),
        "processor": cpu_description(),
        "memory_gb": round(psutil.virtual_memory().total / 1e9, 1),
        "accelerators": [str(known.get("device_name", name)) for known, name in details],
    }


def commit() -> str | None:
    """Return the git commit of this code, with a "+" if the code has changes; None if unknown."""
    root = pathlib.Path(__file__).resolve().parents[1]

    def git(*arguments: str) -> str:
        return subprocess.run(["git", "-C", str(root), *arguments], capture_output=True, text=True, check=True).stdout

    try:
        changed = git("status", "--porcelain", "--untracked-files=no", "--", "*.py", "*.gin")
        return git("rev-parse", "HEAD").strip() + ("+" if changed else "")
    except (OSError, subprocess.CalledProcessError):  # no git, no repository, or one owned by another user
        return None


def number(value: float | None) -> str:
    """Format a number with three significant digits and all digits before the point: 0.0123, 1.23, 12.3, 123, 1,234."""
    if not value:
        return "-" if value is None else "0"
    magnitude = int(f"{value:.2e}".partition("e")[2])  # exponent of the first digit after rounding
    return f"{value:,.{max(0, 2 - magnitude)}f}"


def spread(values: Sequence[float]) -> dict[str, Any]:
    """Build the form of a measured value in results: `median`, and all `repeats` in the order of measurement."""
    return {"median": statistics.median(values), "repeats": list(values)}


def spreads(repeats: Sequence[Mapping[str, float]]) -> dict[str, Any]:
    """Compute the `spread` of each of several values measured together, given as one mapping per repeat."""
    return {name: spread([repeat[name] for repeat in repeats]) for name in repeats[0]}


def ratio(numerators: Sequence[float], denominators: Sequence[float]) -> dict[str, Any]:
    """Compute the `spread` of ratios of values measured alternately."""
    return spread([a / b for a, b in zip(numerators, denominators, strict=True)])


def median(value: Mapping[str, Any]) -> str:
    """Format the median of a `spread` as `number` does."""
    return number(value["median"])
