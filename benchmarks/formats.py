"""The act step and the update by instruction set, number format and oneDNN.

Each combination is a process of its own, because TensorFlow reads these settings when it starts; processes take turns.
`AVX2` limits oneDNN and XLA to these instructions, as on a CPU without newer ones. The last rate is that of a learner
whose act steps and updates take turns on the same cores, without environments. A star marks what the experiment and
the library choose by default with these instructions.
"""

import argparse
import dataclasses
import json
import os
import subprocess
import sys
from typing import Any

from benchmarks import BenchmarkError, flags
from benchmarks.parts import LearnerPart
from benchmarks.report import columns, median
from benchmarks.timing import milliseconds, spreads
from seed_rl.experiment import config_files

QUICK = {"configs": "catch/vtrace", "dtypes": "float32", "instructions": "native", "seconds": 0.1, "repeats": 1}

INSTRUCTIONS = {"native": {}, "AVX2": {"ONEDNN_MAX_CPU_ISA": "AVX2", "XLA_FLAGS": "--xla_cpu_max_isa=AVX2"}}
"""Environment variables by instruction set."""
DTYPES = ("float32", "mixed_bfloat16")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of this benchmark."""
    parser.add_argument("--configs", default="atari/vtrace_fast,atari/vtrace_pong", help="names of gin files")
    parser.add_argument("--instructions", type=flags.some_of(INSTRUCTIONS), default="native,AVX2", help="to be used")
    parser.add_argument("--dtypes", type=flags.some_of(DTYPES), default=",".join(DTYPES), help="number formats")
    flags.add_timing(parser, 2.0)


def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    """Measure each combination in processes that take turns."""
    cells = [
        {"config": config, "instructions": instructions, "dtype": dtype, "onednn": onednn}
        for config in arguments.configs.split(",")
        for instructions in arguments.instructions
        for dtype in arguments.dtypes
        for onednn in (True, False)
    ]
    found: list[list[dict[str, float]]] = [[] for _ in cells]
    for _ in range(arguments.repeats):
        for cell, own in zip(cells, found, strict=True):
            own += [] if (measured := _in_process(cell, arguments.seconds)) is None else [measured]
    return {"formats": [cell | (spreads(own) if own else {}) for cell, own in zip(cells, found, strict=True)]}


def _in_process(cell: dict[str, Any], seconds: float) -> dict[str, float] | None:
    """Measure a combination; return None if oneDNN lacks an implementation."""
    variables = {**INSTRUCTIONS[cell["instructions"]], "TF_ENABLE_ONEDNN_OPTS": str(int(cell["onednn"]))}
    command = [sys.executable, "-m", "benchmarks.formats", cell["config"], cell["dtype"], str(seconds)]
    done = subprocess.run(command, env={**os.environ, **variables}, capture_output=True, text=True)
    if done.returncode and "could not create a primitive" not in done.stderr:
        raise BenchmarkError(f"{cell}: {(done.stderr.strip().splitlines() or [str(done.returncode)])[-1]}")
    return None if done.returncode else json.loads(done.stdout.splitlines()[-1])


def _measure_here(config: str, dtype: str, seconds: str) -> dict[str, Any]:
    """Measure act step and update in this process."""
    loaded = config_files.load([config])
    agent = dataclasses.replace(loaded.agent, dtype=dtype)  # type: ignore[call-arg]  # these agents have one
    part = LearnerPart(dataclasses.replace(loaded, agent=agent))
    act, train = part.step_by_step()
    (act_ms,), (update_ms,) = milliseconds({"act": act, "update": train}, float(seconds), 1).values()
    steps = 1e3 / (act_ms / part.steps_per_act + update_ms / part.steps_per_update)
    default = loaded.agent.for_device().dtype  # type: ignore[attr-defined]
    return {"act_ms": act_ms, "update_ms": update_ms, "agent_steps": steps, "is_default": float(default == dtype)}


def table(result: dict[str, Any]) -> str:
    """Format the times by combination."""
    heads = ["experiment", "instructions", "dtype", "oneDNN", "act step\nms", "update\nms", "agent\nsteps/s", ""]
    rows = []
    for cell in result["formats"]:
        measured = [median(cell[name]) if name in cell else "-" for name in ("act_ms", "update_ms", "agent_steps")]
        is_default = cell["onednn"] and "is_default" in cell and cell["is_default"]["median"]
        names = [cell["config"], cell["instructions"], cell["dtype"], "on" if cell["onednn"] else "off"]
        rows.append([*names, *measured, "*" if is_default else ""])
    return columns(heads, rows)


if __name__ == "__main__":
    print(json.dumps(_measure_here(*sys.argv[1:])))
