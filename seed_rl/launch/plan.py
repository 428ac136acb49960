"""What a learner needs around it: actors, their cores, a network, memory. A formula; what it assumes is in its text."""

from __future__ import annotations

import dataclasses
import math
import textwrap
from typing import NamedTuple

from benchmarks.text import number
from seed_rl.capacity import (
    CORES,
    DEVICE,
    INFERENCE,
    SERVER,
    UPDATES,
    ActorNeeds,
    Capacity,
    Traffic,
    actor_needs,
    capacity,
)
from seed_rl.capacity import traffic as traffic_of
from seed_rl.experiment import Actors, Devices, Experiment
from seed_rl.launch.rates import Rates
from seed_rl.learner.split import Split, split
from seed_rl.transport.codec import StepCodec

ANSWER_ACT_STEPS = 2
"""An answer takes the act step that is running when observations come, and their own."""
SHARED = 2
"""Each takes so much longer where an update runs beside it."""


_WIDEST = 100


class Machine(NamedTuple):
    """What there is around the learner."""

    rtt_seconds: float
    """Round trip between an actor and the learner."""
    actor_cores: int
    """Of one machine for actors."""


class Plan(NamedTuple):
    """What is needed."""

    devices: Split
    learner: Capacity
    latency_seconds: float
    """From a group's observations to its actions."""
    actors: ActorNeeds
    machines: int
    traffic: Traffic
    unroll_bytes: int
    """Of unrolls in progress and queued."""
    kept_bytes: int
    """Of the replay, or of the batch that is learned from."""


def plan(experiment: Experiment, rates: Rates, machine: Machine) -> Plan:
    """The needs of an experiment's learner at its full rate; imports TensorFlow.

    Raises:
      CannotBuild: it can't be seen here what the environments are like.
      CannotAct: the agent can't act in them.
      BadDevices: the learner could not divide its work among its accelerators.
    """
    size = experiment.actors.envs_per_group
    group_seconds = size / rates.env_steps
    devices = _devices(experiment, rates.accelerators)
    acting, apart = len(devices.inference), _apart(devices)
    learner = capacity(
        rates.costs,
        rates.cores,
        group_seconds,
        rates.device._replace(devices=acting),
        rates.training._replace(seconds=rates.training.seconds / len(devices.training), apart=apart),
        on_cores=not rates.accelerators,
    )
    latency = machine.rtt_seconds + ANSWER_ACT_STEPS * (1 if apart else SHARED) * rates.device.seconds_per_batch
    rate = learner.observations_per_second
    actors = actor_needs(rate, rates.env_steps, size, latency, rates.device.batch, acting)
    codec = StepCodec(experiment.env_spec(), size)
    kept, unrolls = _store_bytes(experiment, actors, acting)
    return Plan(
        devices,
        learner,
        latency,
        actors,
        math.ceil(actors.cores / machine.actor_cores),
        traffic_of(rate, size, codec.step_bytes, codec.actions_bytes),
        unrolls,
        kept,
    )


def sized(experiment: Experiment, actors: ActorNeeds) -> Experiment:
    """The experiment with an actor process for each core, and as many groups as it needs."""
    spread = Actors(actors.cores, actors.groups, experiment.actors.envs_per_group)
    return dataclasses.replace(experiment, actors=spread)


def _devices(experiment: Experiment, accelerators: int) -> Split:
    """Who of them acts and who trains, as the learner divides them if it may have any number of groups."""
    if not accelerators:
        split(experiment, [f"CPU:{number}" for number in range(experiment.devices.logical_cpus)])
        return split(dataclasses.replace(experiment, devices=Devices()), ["CPU:0"])
    named = (*experiment.devices.inference, *experiment.devices.training, "GPU:0")
    available = [f"{named[0].partition(':')[0]}:{number}" for number in range(accelerators)]
    any_number = ActorNeeds(math.lcm(*range(1, accelerators + 1)), 1, 0)
    return split(sized(experiment, any_number), available)


def _apart(devices: Split) -> bool:
    return not set(devices.inference) & set(devices.training)


def _store_bytes(experiment: Experiment, actors: ActorNeeds, acting: int) -> tuple[int, int]:
    """Of what is kept, and of what acting holds on each of the devices that act."""
    from seed_rl.learner.store_size import store_size

    larger = sized(experiment, actors)
    size = store_size(larger.part(acting), larger.build_agent(), larger.env_spec(), acting)
    return acting * size.capacity * size.nbytes_each, size.in_progress * size.nbytes_each


LIMITS = {
    SERVER: "the server's thread, which takes the messages",
    INFERENCE: "the inference thread: batching, acting, answering",
    CORES: "the learner's cores: the wire, batching, answering",
    DEVICE: "act steps and updates, which take turns",
    UPDATES: "the updates, on devices that don't act",
}


def text(name: str, experiment: Experiment, rates: Rates, machine: Machine, result: Plan) -> str:
    """The plan for people, at most 100 columns wide."""
    lines = [f"{name}: a learner at its full rate, and what it needs", ""]
    for title, rows in (
        ("from", _rate_rows(rates)),
        ("learner", _learner_rows(experiment, rates, result)),
        ("actors", _actor_rows(experiment, rates, machine, result)),
        ("network", _network_rows(result)),
        ("memory", _memory_rows(experiment, result)),
    ):
        for index, (value, words) in enumerate(rows):
            head = f"{title if index == 0 else '':8}{value:>20}  "
            lines += textwrap.wrap(words, _WIDEST, initial_indent=head, subsequent_indent=" " * len(head))
        lines.append("")
    actors = result.actors
    lines.append(f"for example: --num_actors={actors.cores} --gin_param=Actors.groups_per_actor={actors.groups}")
    return "\n".join(lines)


def _rate_rows(rates: Rates) -> list[tuple[str, str]]:
    where = rates.sources
    device = {0: "all cores", 1: "the accelerator"}.get(rates.accelerators, "one accelerator")
    costs = rates.costs
    return [
        (f"{number(rates.env_steps)} steps/s", f"environments of one core ({where['environment']})"),
        (
            f"{number(1000 * rates.device.seconds_per_batch)} ms",
            f"act step of {rates.device.batch} on {device} ({where['act step']})",
        ),
        (
            f"{number(1000 * rates.training.seconds)} ms",
            f"update{' on one' if rates.accelerators > 1 else ''}, for {number(rates.training.steps)} new steps "
            f"({where['update']})",
        ),
        (
            f"{number(1e6 * costs.server_per_message)} µs",
            f"server's thread, per message of {costs.group_size} ({where['server']})",
        ),
        (f"{number(1e6 * costs.host_per_observation)} µs", f"batching and answers, per step ({where['host']})"),
    ]


def _learner_rows(experiment: Experiment, rates: Rates, result: Plan) -> list[tuple[str, str]]:
    rate, repeat = result.learner.observations_per_second, experiment.env.action_repeat
    acting, training = len(result.devices.inference), len(result.devices.training)
    who = f"of {rates.accelerators} accelerators; each that acts has an inference thread of its own"
    rows = [(f"{acting} act, {training} train", who)] if rates.accelerators > 1 else []
    rows += [
        (f"{number(repeat * rate)} frames/s", f"{number(rate)} agent steps/s, {_counted(repeat, 'frame')} each"),
        ("limited by", LIMITS[result.learner.limit]),
    ]
    others = {limit: value for limit, value in result.learner.limits.items() if limit != result.learner.limit}
    for limit, value in sorted(others.items(), key=lambda item: item[1]):
        if math.isfinite(value):
            rows.append((f"{number(value)} steps/s", f"would be the limit of {LIMITS[limit]}"))
    return rows


def _actor_rows(experiment: Experiment, rates: Rates, machine: Machine, result: Plan) -> list[tuple[str, str]]:
    actors, size = result.actors, experiment.actors.envs_per_group
    answer = f"{ANSWER_ACT_STEPS} act steps"
    answer += "" if _apart(result.devices) else f", {SHARED} x as long beside updates"
    cores, machines = _counted(actors.cores, "core"), _counted(result.machines, "machine")
    return [
        (cores, f"that do nothing but step environments: {machines} of {machine.actor_cores} cores"),
        (
            f"{number(1000 * result.latency_seconds)} ms",
            f"until actions come: {number(1000 * machine.rtt_seconds)} ms network, {answer}",
        ),
        (
            f"{_counted(actors.groups, 'group')} per core",
            f"of {size} environments, whose step takes {number(1000 * size / rates.env_steps)} ms",
        ),
        (f"{actors.environments:,} environments", "in all, so that the cores never wait and batches can be full"),
    ]


def _network_rows(result: Plan) -> list[tuple[str, str]]:
    return [
        (f"{number(result.traffic.up * 8 / 1e6)} Mbit/s", "to the learner, headers included"),
        (f"{number(result.traffic.down * 8 / 1e6)} Mbit/s", "back to the actors"),
    ]


def _memory_rows(experiment: Experiment, result: Plan) -> list[tuple[str, str]]:
    where = "the learner's device" if len(result.devices.inference) == 1 else "each device that acts"
    kept = "the batch that is learned from"
    if experiment.replay is not None:
        kept = f"the replay of {experiment.replay.capacity:,} sequences"
    return [
        (f"{number(result.unroll_bytes / 1e6)} MB", f"unrolls in progress and queued, on {where}"),
        (f"{number(result.kept_bytes / 1e6)} MB", kept),
    ]


def _counted(count: int, what: str) -> str:
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"
