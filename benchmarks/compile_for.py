"""Act and optimizer steps of shipped experiments, compiled for a TPU or GPU without the device: do they copy the store?

XLA's compilers, from JAX's packages, compile both steps as on a machine with that device. The table shows the device
memory that the experiment takes with all its environments and its full replay, the temporaries in it, and the number of
instructions, other than the write in place, whose result is as large as the unroll store.
"""

import argparse
import functools
import importlib
import math
import os
import pathlib
import re
import time
from typing import Any
from unittest import mock

import numpy as np
import tensorflow as tf

from benchmarks import BenchmarkError, flags
from benchmarks.experiments import Recipe
from benchmarks.parts import ActStepPart
from benchmarks.report import number
from seed_rl.buffers import rows
from seed_rl.buffers.unroll_store import UnrollStore
from seed_rl.experiment import Experiment
from seed_rl.experiment.sizes import Sizes
from seed_rl.extras.planning.plan import blank_unroll
from seed_rl.learner.train_step import TrainStep
from seed_rl.reporting.text import columns
from seed_rl.system import devices

DEVICES = {"v5e": "v5e:2x2", "h200": "h200.txtpb"}
"""What the compiler aims at: kind and arrangement of TPU chips, or the file in this directory that describes a GPU."""
EXPERIMENTS = {
    **{name: Recipe(name) for name in ("catch/vtrace", "memory/r2d2", "gym/pendulum", "gym/acrobot")},
    **{name: Recipe(name) for name in ("atari/vtrace", "atari/vtrace_fast", "atari/r2d2", "atari/vtrace_deep")},
    "atari/r2d2 bf16": Recipe("atari/r2d2", ("R2D2.dtype = 'mixed_bfloat16'",)),
    "atari/vtrace_deep bf16": Recipe("atari/vtrace_deep", ("VTrace.dtype = 'mixed_bfloat16'",)),
    "atari/r2d2_accelerator": Recipe("atari/r2d2_accelerator"),
    "dmlab/vtrace": Recipe("dmlab/vtrace"),
    "football/vtrace": Recipe("football/vtrace_checkpoints"),
}
"""Experiments that cover each agent, suite and network."""
PROGRAMS = ("act", "update")
QUICK = {"devices": "v5e", "experiments": "catch/vtrace", "programs": "act", "environments": 2}

_COMPUTATION = re.compile(r"^(?:ENTRY )?%?([\w.\-]+) \(.*?\{\n(.*?)^\}", re.MULTILINE | re.DOTALL)
_INSTRUCTION = re.compile(r"^\s+(?:ROOT )?%?[\w.\-]+ = (\(.*?\)|\S+) ([\w\-]+)\(", re.MULTILINE)
_ARRAY = re.compile(r"([a-z]\w*)\[([\d,]*)\](\{[^}]*\})?")
_NAMES_ONLY = ("parameter", "get-tuple-element", "tuple", "bitcast", "constant", "while", "conditional", "call")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    for flag, known in (("devices", [*DEVICES]), ("experiments", [*EXPERIMENTS]), ("programs", [*PROGRAMS])):
        parser.add_argument(f"--{flag}", type=flags.some_of(known), default=",".join(known), help=f"{flag} to compile")
    parser.add_argument("--environments", type=flags.count, default=256, help="environments per act step")


def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    cells = []
    with mock.patch.object(devices, "has_accelerator", return_value=True):
        for name in arguments.experiments:
            experiment = EXPERIMENTS[name].load()
            for kind in arguments.programs:
                program, store = _act(experiment, arguments.environments) if kind == "act" else _update(experiment)
                hlo = program[0].experimental_get_compiler_ir(*program[1])(stage="hlo_serialized")
                whole = Sizes.of(experiment, experiment.build_agent()).store_nbytes
                for device in arguments.devices:
                    started = time.monotonic()
                    cell = {"experiment": name, "program": kind, "device": device, **_compiled(hlo, store, device)}
                    seconds = time.monotonic() - started
                    cells.append({**cell, "experiment_store_nbytes": whole, "compile_seconds": seconds})
                    print(f"{name} {kind} for {device}: {cell.get('refused', 'compiled')}", flush=True)
    return {"programs": cells}


def _act(experiment: Experiment, environments: int) -> tuple[Any, UnrollStore]:
    part = ActStepPart(experiment, experiment.build_agent(), environments)
    return part.program(), part.store


def _update(experiment: Experiment) -> tuple[Any, None]:
    agent, batch = experiment.build_agent(), experiment.batch_size
    step = TrainStep(agent, experiment.optimizer, passes=experiment.passes, minibatches=experiment.minibatches)
    return step.program(blank_unroll(agent, batch), np.ones(batch, np.float32)), None


def _compiled(hlo: bytes, store: UnrollStore | None, device: str) -> dict[str, Any]:
    """Compile a program for one chip. JAX has no public way for programs that are not its own; its internals are here.

    Raises:
      BenchmarkError: the compiler is not installed.
    """
    target = _target(device)
    from jax._src.interpreters import mlir
    from jax._src.lib import _jax, xla_client

    with mlir.make_ir_context():
        module = _without_copies(_jax.mlir.hlo_to_stablehlo(hlo))
    options = xla_client.CompileOptions()
    options.num_replicas = options.num_partitions = 1
    options.device_assignment = xla_client.DeviceAssignment.create(np.array([[target.id]], np.int32))
    try:
        executable = target.client.compile(module, _jax.DeviceList((target,)), options)
    except _jax.JaxRuntimeError as error:
        return {"refused": str(error).splitlines()[0]}
    memory, text = executable.get_compiled_memory_stats(), executable.hlo_modules()[0].to_string()
    largest = store and max(store.variables, key=lambda variable: variable.shape.num_elements())
    return {
        "argument_nbytes": memory.argument_size_in_bytes,
        "temporary_nbytes": memory.temp_size_in_bytes,
        "store_nbytes": sum(map(rows.nbytes, store.variables)) if store else 0,
        "as_large_as_the_store": results_like(text, largest) if largest is not None else [],
    }


@functools.cache
def _target(device: str) -> Any:
    os.environ |= {"JAX_PLATFORMS": "cpu", "TPU_SKIP_MDS_QUERY": "1", "ALLOW_MULTIPLE_LIBTPU_LOAD": "1"}
    os.environ |= {"TPU_WORKER_ID": "0", "TPU_WORKER_HOSTNAMES": "localhost"}
    os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} --xla_gpu_autotune_level=0"  # it needs the GPU
    try:
        if not DEVICES[device].endswith(".txtpb"):
            from jax.experimental import topologies

            return topologies.get_topology_desc(platform="tpu", topology_name=DEVICES[device]).devices[0]
        from jax._src.lib import xla_client

        plugin = importlib.import_module("jax_plugins.xla_cuda13")
        library = pathlib.Path(str(plugin.__file__)).with_name("xla_cuda_plugin.so")
        api = xla_client.load_pjrt_plugin_dynamically("cuda", str(library))
        if not xla_client.pjrt_plugin_initialized("cuda"):
            xla_client.initialize_pjrt_plugin("cuda")
        config = pathlib.Path(__file__).with_name(DEVICES[device]).read_text(encoding="utf-8")
        topology: Any = xla_client.make_c_api_device_topology(api, "", topology="1x1x1", target_config=config)
        return topology._make_compile_only_devices()[0]
    except (ImportError, RuntimeError) as error:  # RuntimeError: libtpu is missing
        raise BenchmarkError(f"{error}; scripts/setup_venv.sh accelerators installs it") from error


def _without_copies(bytecode: Any) -> Any:
    """Remove the final copies of updated variables, which TensorFlow emits in a dialect other than StableHLO."""
    from jax._src.lib.mlir import ir

    module, copies = ir.Module.parse(bytecode), list[Any]()

    def collect(operation: Any) -> Any:
        if operation.name == "mhlo.copy":
            copies.append(operation)
        return ir.WalkResult.ADVANCE

    module.operation.walk(collect)
    for copy in copies:
        copy.results[0].replace_all_uses_with(copy.operands[0])
        copy.erase()
    return module


def results_like(program: str, array: tf.Variable | tf.TensorSpec) -> list[str]:
    """Return the operations of an optimized program that write an array of this type and size to device memory.

    A fusion is one operation. Arrays on a TPU's chip don't count, nor do transfers to and from it.
    """
    dtype = array.dtype
    kind = "f" if dtype.is_floating else "u" if dtype.is_unsigned else "s"
    wanted = "pred" if dtype.is_bool else f"{kind}{8 * dtype.size}", array.shape.num_elements()
    fused = set(re.findall(r"calls=%?([\w.\-]+)", program))
    bodies = [body for name, body in _COMPUTATION.findall(program) if name not in fused]
    found = []
    for result, operation in (match for body in bodies for match in _INSTRUCTION.findall(body)):
        own = [
            (kind, math.prod(map(int, filter(None, axes.split(","))))) if "S(1)" not in layout else None
            for kind, axes, layout in _ARRAY.findall(result)
        ]
        is_transfer = operation.endswith("-done") or (operation.endswith("-start") and None in own)
        if wanted in own and not is_transfer and operation not in _NAMES_ONLY:
            found.append(operation)
    return found


def table(result: dict[str, Any]) -> str:
    heads = ["experiment", "step", "device", "memory\nMB", "temporaries\nMB", "copies of\nthe store"]
    return columns(heads, [_row(cell) for cell in result["programs"]])


def _row(cell: dict[str, Any]) -> list[str]:
    names = [cell["experiment"], cell["program"], cell["device"]]
    if "refused" in cell:
        return [*names, "-", "-", "refused"]
    nbytes = cell["argument_nbytes"] + cell["temporary_nbytes"] - cell["store_nbytes"] + cell["experiment_store_nbytes"]
    copies = str(max(0, len(cell["as_large_as_the_store"]) - 1)) if cell["store_nbytes"] else ""
    return [*names, number(nbytes / 1e6), number(cell["temporary_nbytes"] / 1e6), copies]
