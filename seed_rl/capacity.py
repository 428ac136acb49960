"""What one learner host would carry, and the actors that it needs: a model, from costs that were measured.

Pure functions of numbers. What is assumed of the costs is told where they come from: `bench.fleet`, `launch.plan`.
"""

from __future__ import annotations

import math
from typing import NamedTuple

SERVER = "server thread"
INFERENCE = "inference"
CORES = "cores"
DEVICE = "act steps and updates"
UPDATES = "updates"


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
    devices: int = 1
    """Of such devices; each has an inference thread and an equal part of the environments."""


class Training(NamedTuple):
    """The updates."""

    steps: float
    """Agent steps that come new with each update; with a replay fewer than it trains on."""
    seconds: float
    """Of an update."""
    apart: bool = False
    """Whether other devices than those that act do it: otherwise they take turns."""


class Capacity(NamedTuple):
    """What a host carries."""

    observations_per_second: float
    actors: int
    limit: str
    """What is full first."""
    limits: dict[str, float]
    """Observations/s that each part could do."""


def capacity(
    costs: Costs,
    cores: int,
    step_seconds: float,
    accelerator: Accelerator | None = None,
    training: Training | None = None,
    on_cores: bool = False,
) -> Capacity:
    """The actors that one learner host carries.

    Args:
      costs: of the software, on one of the cores.
      cores: of the host.
      step_seconds: of an actor's group of environments.
      accelerator: runs the act step; None: the cores do, as `costs` say.
      training: on the accelerator or beside it; None: nothing is trained.
      on_cores: `accelerator` stands for all cores together: what else they do comes on top.

    Raises:
      ValueError: no cores, no step time, or training without what does it.
    """
    if cores < 1 or step_seconds <= 0:
        raise ValueError(f"a host needs cores and actors a step time, got {cores} and {step_seconds} s")
    if training is not None and accelerator is None:
        raise ValueError("what trains must be given as the accelerator, even if it is the cores")
    if accelerator is None:
        act = costs.act_serial_per_observation + costs.act_parallel_per_observation / cores
        act_cpu = costs.act_serial_per_observation + costs.act_parallel_per_observation
    else:
        act = costs.host_per_observation + accelerator.seconds_per_batch / accelerator.batch
        act_cpu = costs.host_per_observation
    limits = {
        SERVER: _inverse(costs.server_per_message / costs.group_size),
        INFERENCE: _inverse(act) * (1 if accelerator is None else accelerator.devices),
        CORES: cores * _inverse(costs.transport_per_observation + act_cpu),
    }
    if training is not None and accelerator is not None:
        besides = (costs.transport_per_observation + costs.host_per_observation) / cores if on_cores else 0.0
        acting, learning = accelerator.seconds_per_batch / accelerator.batch, training.seconds / training.steps
        if training.apart:
            limits[UPDATES] = _inverse(learning)
        else:
            limits[DEVICE] = _inverse(acting / accelerator.devices + learning + besides)
    limit = min(limits, key=lambda name: limits[name])
    rate = limits[limit]
    actors = rate * step_seconds / costs.group_size
    return Capacity(rate, math.floor(actors) if math.isfinite(actors) else 0, limit, limits)


def _inverse(seconds: float) -> float:
    return 1 / seconds if seconds > 0 else math.inf


class ActorNeeds(NamedTuple):
    """The actors that keep a learner busy."""

    cores: int
    """That step environments all the time."""
    groups: int
    """Of each core: one steps while the others wait for their actions."""
    environments: int
    """In all."""


def actor_needs(
    rate: float, core_rate: float, group_size: int, latency_seconds: float, batch: int = 1, devices: int = 1
) -> ActorNeeds:
    """The fewest cores and groups with which environments take a rate of steps, whatever their answers wait for.

    A core is never idle if the other groups' steps take at least as long as one group waits:
    (groups - 1) * group_size / core_rate >= latency.

    Args:
      rate: agent steps/s of all environments.
      core_rate: agent steps/s of one core.
      group_size: environments of each group.
      latency_seconds: from a group's observations to its actions.
      batch: environments that act at a time on each device at the least, so that there must be as many.
      devices: that act; each takes as many groups as any other.
    """
    cores = max(1, math.ceil(rate / core_rate - 1e-9))
    hiding = 1 + math.ceil(latency_seconds * core_rate / group_size - 1e-9)
    filling = math.ceil(devices * batch / (cores * group_size))
    even = devices // math.gcd(devices, cores)
    groups = math.ceil(max(hiding, filling) / even) * even
    return ActorNeeds(cores, groups, cores * groups * group_size)


class Traffic(NamedTuple):
    """Bytes/s on the line, one way each."""

    up: float
    """To the learner."""
    down: float
    """To the actors."""


LINE_SHARE = 1538 / 1448
"""Bytes on an Ethernet line for each that TCP carries, in full packets."""
MESSAGE_BYTES = 100
"""Of each message: what HTTP/2, gRPC and a packet that is not full add."""


def traffic(rate: float, group_size: int, step_bytes: int, action_bytes: int) -> Traffic:
    """What observations and actions take.

    Args:
      rate: agent steps/s.
      group_size: environments of each message.
      step_bytes: of a group's message to the learner.
      action_bytes: of the answer.
    """
    messages = rate / group_size
    return Traffic(*(messages * (nbytes * LINE_SHARE + MESSAGE_BYTES) for nbytes in (step_bytes, action_bytes)))
