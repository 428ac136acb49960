"""What one learner host would carry: a model, from CPU costs that were measured. Pure functions of numbers.

What it assumes is told where it is used, in `fleet`, whose help shows it.
"""

from __future__ import annotations

import math
from typing import NamedTuple

SERVER = "server thread"
INFERENCE = "inference"
CORES = "cores"


class Costs(NamedTuple):
    """CPU seconds, measured; for groups of one size."""

    group_size: int
    server_per_message: float
    """Of the server's thread."""
    transport_per_observation: float
    """Of all threads of the transport, the server's included."""
    host_per_observation: float
    """Of the inference thread with the null model: batching, copying, sending answers."""
    act_serial_per_observation: float
    """Of the inference thread with the real act step, flat out; answers included."""
    act_parallel_per_observation: float
    """Of TensorFlow's pools (and of whatever trains beside) meanwhile."""


class Accelerator(NamedTuple):
    """What runs the act step in place of the CPU."""

    batch: int
    """Observations per act step."""
    seconds_per_batch: float
    """Copies to it and of the actions back included."""


class Capacity(NamedTuple):
    """What a host carries."""

    observations_per_second: float
    actors: int
    limit: str
    """What is full first."""
    limits: dict[str, float]
    """Observations/s that each part could do."""


def capacity(costs: Costs, cores: int, step_seconds: float, accelerator: Accelerator | None = None) -> Capacity:
    """The actors that one learner host carries.

    Args:
      costs: of the software, on one of the cores.
      cores: of the host.
      step_seconds: of an actor's group of environments.
      accelerator: runs the act step; None: the cores do.

    Raises:
      ValueError: no cores, or no step time.
    """
    if cores < 1 or step_seconds <= 0:
        raise ValueError(f"a host needs cores and actors a step time, got {cores} and {step_seconds} s")
    if accelerator is None:
        act = costs.act_serial_per_observation + costs.act_parallel_per_observation / cores
        act_cpu = costs.act_serial_per_observation + costs.act_parallel_per_observation
    else:
        act = costs.host_per_observation + accelerator.seconds_per_batch / accelerator.batch
        act_cpu = costs.host_per_observation
    limits = {
        SERVER: _inverse(costs.server_per_message / costs.group_size),
        INFERENCE: _inverse(act),
        CORES: cores * _inverse(costs.transport_per_observation + act_cpu),
    }
    limit = min(limits, key=lambda name: limits[name])
    rate = limits[limit]
    actors = rate * step_seconds / costs.group_size
    return Capacity(rate, math.floor(actors) if math.isfinite(actors) else 0, limit, limits)


def _inverse(seconds: float) -> float:
    return 1 / seconds if seconds > 0 else math.inf


class Load(NamedTuple):
    """How full each resource was while a number of actors was served."""

    keeps_up: bool
    """Whether observations were answered nearly as fast as by an unloaded learner."""
    generator: float
    """Share of a core that the busiest load generator used."""
    server: float
    """Share of a core that the server's thread used."""
    inference: float
    """Share of a core that the inference thread used."""
    acting: float
    """Share of the time that an act step was running."""
    blocked: float
    """Share of the time that inference waited for the learner to take unrolls."""
    machine: float
    """Share of the machine's cores that was busy."""
    file_descriptors: float
    """Share of the limit."""
    memory: float
    """Share of the machine's memory that the learner holds."""


def first_limit(load: Load) -> str:
    """Which resource was full, in words; "" if the learner kept up.

    The load generator is asked first: where it is full, the learner hasn't been tried.
    """
    if load.keeps_up:
        return ""
    shared = f", on a machine whose cores are {load.machine:.0%} busy" if load.machine > 0.9 else ""
    if load.generator > 0.95:
        return f"the load generator: a core is full{shared} (more --generators)"
    if load.server > 0.85:
        return f"transport: the server's thread takes {load.server:.0%} of a core{shared}"
    if load.blocked > 0.2:
        return f"learner: acting waits for it {load.blocked:.0%} of the time{shared}"
    if load.acting > 0.8:
        return f"act step: running {load.acting:.0%} of the time{shared}"
    if load.inference > 0.85:
        return f"inference: its thread takes {load.inference:.0%} of a core, batching and answering{shared}"
    if load.machine > 0.9:
        return f"CPU: the machine's cores are {load.machine:.0%} busy"
    if load.file_descriptors > 0.9:
        return f"file descriptors: {load.file_descriptors:.0%} of the limit"
    if load.memory > 0.9:
        return f"memory: the learner holds {load.memory:.0%} of the machine's"
    return "nothing is full: answers wait for one another (the interpreter's lock, wake-ups)"


def keeps_up(achieved: float, unloaded: float) -> bool:
    """Whether a rate is what streams get whose answers come as fast as from an unloaded learner, within 10 %."""
    return achieved >= 0.9 * unloaded
