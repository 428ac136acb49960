"""Environment frames per second of V-trace on Pong, beside other programs on the same cores, in turns.

The programs train the network of an experiment with its environments and batches; each of their scripts, in
docs/results/performance, says how to install what it needs. They run with the interpreters that the flags name, and
those without one are left out. What a program does in its first `--settle` seconds does not count, and for this library
these begin with the first update.
"""

import argparse
import pathlib
import re
import subprocess
from collections.abc import Mapping
from typing import Any

from benchmarks import BenchmarkError, flags
from benchmarks.end_to_end import run_rate
from benchmarks.experiments import Recipe
from benchmarks.report import median, spread
from seed_rl.reporting.text import columns

SCRIPTS = pathlib.Path(__file__).resolve().parents[1] / "docs" / "results" / "performance"
OURS = "seed_rl"
OTHERS = {
    "PyTorch, float32": ("torch", "torch", "plain_torch.py --recipe={recipe} --dtype=float32"),
    "PyTorch, bfloat16": ("torch", "torch", "plain_torch.py --recipe={recipe} --dtype=bfloat16"),
    "Sample Factory": ("sample_factory", "sample-factory", "sample_factory.py"),
    "RLlib": ("rllib", "ray", "rllib_impala.py"),
}
"""Flag with the interpreter, distribution with the version, and command of each other program."""
ONLY_PONG = ("Sample Factory", "RLlib")  # whose scripts have the network of `vtrace_pong`
RECIPES = ("vtrace_fast", "vtrace_pong")
RATE = re.compile(r"^([0-9,]+) frames/s", re.MULTILINE)

QUICK = {"recipes": "vtrace_pong", "settle": 0.5, "run_seconds": 1.0, "metrics_interval": 0.2, "repeats": 1}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--recipes", type=flags.some_of(RECIPES), default=",".join(RECIPES), help=", ".join(RECIPES))
    for flag in dict.fromkeys(flag for flag, *_ in OTHERS.values()):
        parser.add_argument(f"--{flag}", metavar="PYTHON", help="interpreter of the environment that has it")
    parser.add_argument("--settle", type=flags.seconds, default=20.0, help="seconds that do not count")
    parser.add_argument("--run_seconds", type=flags.seconds, default=30.0, help="seconds of each run to measure")
    parser.add_argument("--metrics_interval", type=flags.seconds, default=2.0, help="seconds between rows of metrics")
    parser.add_argument("--repeats", type=flags.count, default=3, help="turns; the table shows the median")


def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    rows = []
    for recipe in arguments.recipes:
        programs = [
            name for name, (flag, *_) in OTHERS.items()
            if getattr(arguments, flag) and (recipe == "vtrace_pong" or name not in ONLY_PONG)
        ]  # fmt: skip
        rates: dict[str, list[float]] = {name: [] for name in (OURS, *programs)}
        for _ in range(arguments.repeats):
            for name, each in rates.items():
                each.append(_rate(name, recipe, arguments))
        for name, each in rates.items():
            command = f"seed_rl train --gin_file=atari/{recipe}" if name == OURS else _command(name, recipe)
            about = {"program": name, "version": _version(name, arguments), "recipe": recipe, "command": command}
            rows.append({**about, "frames": spread(each)})
    return {"rows": rows}


def _command(name: str, recipe: str) -> str:
    return OTHERS[name][2].format(recipe=recipe)


def _rate(name: str, recipe: str, arguments: argparse.Namespace) -> float:
    if name == OURS:
        ours = Recipe(f"atari/{recipe}")
        return ours.load().env.action_repeat * run_rate(ours, arguments)
    script, *given = _command(name, recipe).split()
    times = [f"--settle={arguments.settle}", f"--seconds={arguments.run_seconds}"]
    output = _output(name, arguments, str(SCRIPTS / script), *given, *times)
    if not (found := RATE.search(output)):
        raise BenchmarkError(f"{name} printed no rate: {output[-300:]!r}")
    return float(found[1].replace(",", ""))


def _version(name: str, arguments: argparse.Namespace) -> str:
    """Return the version of another program's distribution; the report has ours."""
    if name == OURS:
        return ""
    read = f"from importlib import metadata; print(metadata.version({OTHERS[name][1]!r}))"
    return _output(name, arguments, "-c", read).strip()


def _output(name: str, arguments: argparse.Namespace, *words: str) -> str:
    python = getattr(arguments, OTHERS[name][0])
    try:
        done = subprocess.run([python, *words], capture_output=True, text=True, check=True)
    except OSError as error:
        raise BenchmarkError(f"{python} can't be run: {error.strerror}") from error
    except subprocess.CalledProcessError as error:
        raise BenchmarkError(f"{name} failed: {error.stderr[-300:]!r}") from error
    return done.stdout


def label(row: Mapping[str, Any]) -> str:
    name, _, dtype = row["program"].partition(", ")
    return " ".join(filter(None, [name, row["version"].partition("+")[0]])) + (dtype and f", {dtype}")


def table(result: dict[str, Any]) -> str:
    ours = {row["recipe"]: row["frames"]["median"] for row in result["rows"] if row["program"] == OURS}
    rows = []
    for row in result["rows"]:
        name = label(row)
        each = " ".join(f"{rate:,.0f}" for rate in row["frames"]["repeats"])
        rows.append(
            [row["recipe"], name, median(row["frames"]), f"{row['frames']['median'] / ours[row['recipe']]:.2f}", each]
        )
    return columns(["network", "program", "frames/s", "of ours", "in each turn"], rows)
