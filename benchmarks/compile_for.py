"""Act and optimizer steps of shipped experiments, compiled for a TPU or GPU without needing the device.

XLA's compilers, from JAX's packages, compile the act step and the optimizer step as on a machine with that device. The
table shows properties of the programs:

- temporaries, and instructions other than the in-place write whose result is as large as the unroll store;
- device memory read and written per agent step (excluding on-chip memory), and FLOPs as counted by
  `scripts/bench.sh train`, from which the device's peaks give an upper bound of the rate, set by memory or arithmetic;
- the device memory that the experiment takes with all its environments and its full replay.
"""

import argparse
import time
from typing import Any, NamedTuple
from unittest import mock

import tensorflow as tf

from benchmarks import flags
from benchmarks.ahead_of_time import DEVICES, CompilerRejection, compile_for
from benchmarks.experiments import Recipe
from benchmarks.flops import forward_flops, update_flops
from benchmarks.hlo import Array
from benchmarks.parts import ActStepPart, UpdatePart
from benchmarks.report import columns, number
from seed_rl.experiment import Experiment
from seed_rl.experiment.sizes import Sizes
from seed_rl.system import devices

EXPERIMENTS = {
    "catch/vtrace": Recipe("catch/vtrace"),
    "memory/r2d2": Recipe("memory/r2d2"),
    "gym/pendulum": Recipe("gym/pendulum"),
    "atari/vtrace": Recipe("atari/vtrace"),
    "atari/vtrace_fast": Recipe("atari/vtrace_fast"),
    "gym/acrobot": Recipe("gym/acrobot"),
    "atari/r2d2": Recipe("atari/r2d2"),
    "atari/r2d2 bf16": Recipe("atari/r2d2", ("R2D2.dtype = 'mixed_bfloat16'",)),
    "atari/vtrace_deep": Recipe("atari/vtrace_deep"),
    "atari/vtrace_deep bf16": Recipe("atari/vtrace_deep", ("VTrace.dtype = 'mixed_bfloat16'",)),
    "dmlab/vtrace": Recipe("dmlab/vtrace"),
    "football/vtrace": Recipe("football/vtrace_checkpoints"),
}
"""Experiments that cover each agent, suite and network."""

PROGRAMS = ("act", "update")

QUICK = {"devices": "v5e", "experiments": "catch/vtrace", "programs": "act", "environments": 2}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of this benchmark."""
    parser.add_argument(
        "--devices", type=flags.some_of(DEVICES), default=",".join(DEVICES), help="devices to compile for"
    )
    everything = ",".join(EXPERIMENTS)
    parser.add_argument(
        "--experiments", type=flags.some_of(EXPERIMENTS), default=everything, help="experiments to compile"
    )
    parser.add_argument(
        "--programs", type=flags.some_of(PROGRAMS), default=",".join(PROGRAMS), help="programs to compile"
    )
    parser.add_argument("--environments", type=flags.count, default=256, help="environments per act step")


def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    """Compute memory, traffic and rate limit of each program on each device."""
    cells = []
    with mock.patch.object(devices, "has_accelerator", return_value=True):
        for name in arguments.experiments:
            experiment = EXPERIMENTS[name].load()
            for kind in arguments.programs:
                program = _act(experiment, arguments.environments) if kind == "act" else _update(experiment)
                for device in arguments.devices:
                    cell = {"experiment": name, "program": program.name, "device": device}
                    cells.append({**cell, **_compiled(program, device, experiment)})
                    print(_line(cells[-1]), flush=True)
    return {"programs": cells}


class _Program(NamedTuple):
    name: str
    hlo: bytes
    agent_steps: int
    """Number of agent steps that it acts for or learns from."""
    flops: int
    frames: Array | None
    """Largest variable of the unroll store; None if it has no store."""
    store_nbytes: int
    """Size of the store it is compiled with, bytes."""
    experiment_store_nbytes: int
    """Size of the complete experiment's store, bytes."""


def _act(experiment: Experiment, environments: int) -> _Program:
    agent = experiment.build_agent()
    part = ActStepPart(experiment, agent, environments)
    flops = environments * forward_flops(agent, experiment.env_spec())
    largest = max(part.store.variables, key=lambda variable: variable.shape.num_elements())
    frames = Array(_hlo_dtype(largest.dtype), tuple(largest.shape), on_chip=False)
    whole = Sizes.of(experiment, agent).store_nbytes
    return _Program("act", _hlo(part), environments, flops, frames, part.store.nbytes, whole)


def _update(experiment: Experiment) -> _Program:
    agent = experiment.build_agent()
    part = UpdatePart(experiment, agent, experiment.batch_size)
    batch = experiment.batch_size // experiment.minibatches
    flops, whole = batch * update_flops(experiment, agent), Sizes.of(experiment, agent).store_nbytes
    return _Program("update", _hlo(part), batch * agent.unroll_length, flops, None, 0, whole)


def _hlo(part: ActStepPart | UpdatePart) -> bytes:
    function, values = part.program()
    return function.experimental_get_compiler_ir(*values)(stage="hlo_serialized")


def _hlo_dtype(dtype: tf.DType) -> str:
    kind = "f" if dtype.is_floating else "u" if dtype.is_unsigned else "s"
    return "pred" if dtype.is_bool else f"{kind}{8 * dtype.size}"


def _compiled(program: _Program, name: str, experiment: Experiment) -> dict[str, Any]:
    device, started = DEVICES[name], time.monotonic()
    try:
        compiled = compile_for(device, program.hlo)
    except CompilerRejection as error:
        return {"refused": str(error)}
    is_float32 = getattr(experiment.agent, "dtype", "float32") == "float32"
    traffic = compiled.program.traffic(in_place=program.frames)
    seconds = {
        "arithmetic": program.flops / (device.float32_flops if is_float32 else device.flops),
        "memory": traffic / device.bandwidth,
    }
    limit = max(seconds, key=seconds.__getitem__)
    copies = [] if program.frames is None else compiled.program.results_like(program.frames)
    return {
        "compile_seconds": time.monotonic() - started,
        "agent_steps": program.agent_steps,
        "flops": program.flops,
        "traffic_nbytes": traffic,
        "argument_nbytes": compiled.argument_nbytes,
        "temporary_nbytes": compiled.temporary_nbytes,
        "store_nbytes": program.store_nbytes,
        "experiment_store_nbytes": program.experiment_store_nbytes,
        "as_large_as_the_store": copies,
        "limit": limit,
        "agent_steps_per_second": program.agent_steps / seconds[limit],
    }


def _line(cell: dict[str, Any]) -> str:
    name = f"{cell['experiment']} {cell['program']} for {cell['device']}"
    return (
        f"{name}: refused: {cell['refused']}"
        if "refused" in cell
        else f"{name}: compiled in {cell['compile_seconds']:.0f} s"
    )


def table(result: dict[str, Any]) -> str:
    """Format memory, traffic and rate limit of each program."""
    heads = ["experiment", "step", "device", "memory\nMB", "temp.\nMB", "store\ncopies"]
    heads += ["kB\n/step", "MFLOP\n/step", "million\nsteps/s", "limit"]
    return columns(heads, [_row(cell) for cell in result["programs"]])


def _row(cell: dict[str, Any]) -> list[str]:
    names = [cell["experiment"], cell["program"], cell["device"]]
    if "refused" in cell:
        return [*names, *["-"] * 6, "refused"]
    nbytes = cell["argument_nbytes"] + cell["temporary_nbytes"] - cell["store_nbytes"] + cell["experiment_store_nbytes"]
    steps = cell["agent_steps"]
    return [
        *names,
        number(nbytes / 1e6),
        number(cell["temporary_nbytes"] / 1e6),
        str(max(0, len(cell["as_large_as_the_store"]) - 1)) if cell["store_nbytes"] else "",
        number(cell["traffic_nbytes"] / steps / 1e3),
        number(cell["flops"] / steps / 1e6),
        number(cell["agent_steps_per_second"] / 1e6),
        cell["limit"],
    ]
