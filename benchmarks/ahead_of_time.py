"""XLA's compilers for TPUs and GPUs, from libtpu and JAX's CUDA plugin; they need no device.

JAX has no public interface for compiling foreign programs: all uses of its internals are in this file.
"""

import dataclasses
import functools
import importlib
import os
import pathlib
from typing import Any

import numpy as np

from benchmarks import BenchmarkError
from benchmarks.hlo import Program


@dataclasses.dataclass(frozen=True)
class Device:
    """An accelerator: the compiler's target, and the peak rates from its data sheet."""

    platform: str
    """`tpu` or `cuda`."""
    topology: str
    """TPU: kind and arrangement of chips. GPU: name of the text file in this directory that describes it."""
    flops: float
    """FLOP/s of bfloat16 products; TPU compilers round float32 to bfloat16, too."""
    float32_flops: float
    """FLOP/s of float32 products, on GPUs with TensorFloat-32."""
    bandwidth: float
    """Memory bandwidth, bytes/s."""


DEVICES = {
    "v5e": Device("tpu", "v5e:2x2", 197e12, 197e12, 819e9),
    "h200": Device("cuda", "h200.txtpb", 989e12, 494e12, 4.8e12),
}


class CompilerRejection(Exception):
    """The compiler rejects a program; the message gives the reason."""


@dataclasses.dataclass(frozen=True)
class Compiled:
    """A compiled program and its memory requirements."""

    argument_nbytes: int
    """Size of inputs and variables, bytes."""
    temporary_nbytes: int
    program: Program


def compile_for(device: Device, hlo: bytes) -> Compiled:
    """Compile a serialized HLO module for one chip.

    Raises:
      CompilerRejection: the compiler rejects the program.
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
        raise CompilerRejection(str(error).splitlines()[0]) from error
    memory = executable.get_compiled_memory_stats()
    text = executable.hlo_modules()[0].to_string()
    return Compiled(memory.argument_size_in_bytes, memory.temp_size_in_bytes, Program(text))


@functools.cache
def _target(device: Device) -> Any:
    os.environ |= {"JAX_PLATFORMS": "cpu", "TPU_SKIP_MDS_QUERY": "1", "ALLOW_MULTIPLE_LIBTPU_LOAD": "1"}
    os.environ |= {"TPU_WORKER_ID": "0", "TPU_WORKER_HOSTNAMES": "localhost"}
    os.environ["XLA_FLAGS"] = (
        os.environ.get("XLA_FLAGS", "") + " --xla_gpu_autotune_level=0"
    )  # autotuning needs the GPU
    try:
        return (_tpu if device.platform == "tpu" else _gpu)(device)[0]
    except (ImportError, RuntimeError) as error:  # RuntimeError: libtpu is missing
        remedy = "scripts/setup_venv.sh accelerators installs it"
        raise BenchmarkError(f"{error}; {remedy}") from error


def _tpu(device: Device) -> Any:
    from jax.experimental import topologies

    return topologies.get_topology_desc(platform="tpu", topology_name=device.topology).devices


def _gpu(device: Device) -> Any:
    from jax._src.lib import xla_client

    plugin = importlib.import_module("jax_plugins.xla_cuda13")
    library = pathlib.Path(str(plugin.__file__)).with_name("xla_cuda_plugin.so")
    api = xla_client.load_pjrt_plugin_dynamically("cuda", str(library))
    if not xla_client.pjrt_plugin_initialized("cuda"):
        xla_client.initialize_pjrt_plugin("cuda")
    config = pathlib.Path(__file__).with_name(device.topology).read_text(encoding="utf-8")
    topology: Any = xla_client.make_c_api_device_topology(api, "", topology="1x1x1", target_config=config)
    return topology._make_compile_only_devices()


def _without_copies(bytecode: Any) -> Any:
    """Remove the final copies of updated variables, which TensorFlow emits in a dialect other than StableHLO."""
    from jax._src.lib.mlir import ir

    module = ir.Module.parse(bytecode)
    copies: list[Any] = []

    def collect(operation: Any) -> Any:
        if operation.name == "mhlo.copy":
            copies.append(operation)
        return ir.WalkResult.ADVANCE

    module.operation.walk(collect)
    for copy in copies:
        copy.results[0].replace_all_uses_with(copy.operands[0])
        copy.erase()
    return module
