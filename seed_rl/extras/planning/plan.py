"""Capacity planning for `seed_rl plan`: the actors, network and memory that a learner needs to run at full rate.

Rates are in agent steps per second. The learner is as fast as its slowest part:

- the server's thread takes and answers messages one after the other;
- one inference thread for each device that acts batches the observations and waits for the act step;
- these threads take turns with the process's interpreter lock, which they hold for two thirds of their CPU time;
- act steps and updates take turns where a device does both (the CPU time of the threads above adds to theirs where the
  device is the cores); otherwise an update takes its time on one device over the number of devices that train.

An actor's core keeps its share of the learner's rate if its other groups step for at least as long as one group waits
for its actions: a round trip and two act steps, the one that is running and its own. Left out are evaluation
environments, averaging gradients, and other load on the machines.

The server's thread and the lock limit a process. If its accelerators can do more, they need several processes, even
on one machine: each is a learner host with a share of the accelerators.
"""

import dataclasses
import math
import textwrap
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from seed_rl.agents.base import Agent
from seed_rl.envs.base import CannotBuild
from seed_rl.experiment import Actors, ConfigError, Devices, Experiment
from seed_rl.experiment.sizes import Sizes
from seed_rl.inference.act_step import Staging
from seed_rl.inference.acting import Acting
from seed_rl.learner.device_split import DeviceSplit, split_devices
from seed_rl.learner.train_step import TrainStep
from seed_rl.runs.auto_actors import measure
from seed_rl.system import devices
from seed_rl.system.files import explaining
from seed_rl.system.machine import cores
from seed_rl.transport.codec import StepCodec
from seed_rl.types import Unroll

SERVER = "the server's thread, which takes and answers the messages"
LOCK = "the interpreter's lock, which the server's and the inference threads share"
INFERENCE = "the inference threads: batching and acting"
CORES = "the learner's cores: transport and batching"
DEVICE = "act steps and updates, which take turns"
UPDATES = "the updates, on separate training devices"

ANSWER_ACT_STEPS = 2
LOCKED_SHARE = 0.65  # of the CPU time per message, in which the interpreter's lock is held; measured, 0.55 to 0.66
SHARED = 2  # factor by which an update on the same device slows down an act step
LINE_SHARE = 1538 / 1448  # bytes on an Ethernet line per byte of TCP payload, for full packets
MESSAGE_BYTES = 100  # overhead per message: HTTP/2, gRPC and a partly filled packet
SECONDS = 2.0  # duration of a measurement
_STEPS, _MS = 512, 2000
"""Agent steps in the update that is measured, and milliseconds to act in them, at most; longer batches take longer."""
_MESSAGES = {1: (38.8, 21.8), 4: (42.2, 5.56), 16: (48.6, 1.80), 64: (86.7, 0.999)}
"""CPU time by environments per message: of the server's thread per message, and of an inference thread per step, in
microseconds, for Atari frames of 8 streams over the network to a core of an AMD EPYC (docs/benchmarks.md)."""


class Rates(NamedTuple):
    """Speeds of the parts of an experiment, named like the flags that set them."""

    env_steps: float  # agent steps/s of environments on one core
    act_ms: float  # duration of an act step on one device (all cores count as one device), milliseconds
    act_batch: int  # number of environments in that act step
    update_ms: float  # duration of an update of the experiment's batch on one device, milliseconds
    server_us: float  # CPU time of the server thread per message, microseconds
    host_us: float  # CPU time of an inference thread per observation, without the act step, microseconds
    learner_cores: int  # number of cores of the learner machine
    accelerators: int  # number of accelerators of the learner; 0: its cores act and train


def find_rates(experiment: Experiment, agent: Agent, given: Mapping[str, float | None]) -> tuple[Rates, dict[str, str]]:
    """Measure the rates that aren't `given` here, or raise a ConfigError, and describe the source of each."""
    rates: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    sources = dict.fromkeys(rates, "given")
    here = len(devices.accelerators())
    if rates.setdefault("accelerators", here) and not here and not rates.keys() >= {"act_ms", "update_ms"}:
        raise ConfigError("--accelerators needs --act_ms and --update_ms on a machine that has none to measure")
    rates.setdefault("learner_cores", cores())
    players, most = experiment.env.players, experiment.inference.max_batch_size
    if (batch := rates.setdefault("act_batch", most // players * players)) % players:
        raise ConfigError(f"--act_batch must be a multiple of the {players} players of a game, got {batch}")
    server_us, host_us, source = message_us(experiment.actors.envs_per_group)
    for name, look_up in (
        ("env_steps", lambda: env_steps(experiment)),
        ("act_ms", lambda: act_ms(experiment, agent, batch)),
        ("update_ms", lambda: update_ms(experiment, agent, rates["act_ms"] / batch)),
        ("server_us", lambda: (server_us, source)),
        ("host_us", lambda: (host_us, source)),
    ):
        if name not in rates:
            rates[name], sources[name] = look_up()
    return Rates(**rates), sources


def env_steps(experiment: Experiment) -> tuple[float, str]:
    """Measure agent steps/s of a group of environments with random actions on a core, and describe the source."""
    with explaining(ConfigError, "the environments can't be measured here; give --env_steps", CannotBuild):
        rate, _ = measure(experiment.env, experiment.actors.envs_per_group)
    return rate, "measured here"


def act_ms(experiment: Experiment, agent: Agent, batch: int) -> tuple[float, str]:
    """Measure an act step of a number of environments, milliseconds, and describe the source."""
    acting = acting_of(experiment, agent, batch)
    env_ids, restarted = np.arange(batch, dtype=np.int32), np.zeros(batch, bool)
    output = Staging(experiment.env_spec(), batch).batch
    acting.cursor.restart(env_ids)
    writes, _ = acting.cursor.advance(env_ids)
    return 1e3 * _duration(lambda: acting.act_step(env_ids, restarted, writes, [output])), "measured here"


def acting_of(experiment: Experiment, agent: Agent, batch: int) -> Acting:
    """Build the acting of a single group of `batch` environments, whose store is as small as possible."""
    sized = dataclasses.replace(
        experiment,
        # All fields are given, because gin would fill in the experiment's.
        actors=Actors(num_actors=1, groups_per_actor=1, envs_per_group=batch, num_eval_envs=0),
        inference=dataclasses.replace(experiment.inference, max_batch_size=batch),
        replay=experiment.replay and dataclasses.replace(experiment.replay, capacity=1, min_size=1),
    )
    return Acting(agent, Sizes.of(sized, agent), sized.inference, experiment.seed)


def update_ms(experiment: Experiment, agent: Agent, step_ms: float) -> tuple[float, str]:
    """Measure an update of the experiment's batch, milliseconds, and describe the source; to act takes `step_ms`."""
    unrolls = max(1, min(experiment.batch_size, int(min(_STEPS, _MS / step_ms)) // agent.length))
    # A rate of zero, because repeated learning from one batch might diverge.
    train_step = TrainStep(agent, dataclasses.replace(experiment.optimizer, learning_rate=0.0))
    batch, weights = blank_unroll(agent, unrolls), np.ones(unrolls, np.float32)
    times = experiment.passes * experiment.batch_size / unrolls
    source = f"measured here with {unrolls} unrolls, times {times:.3g}"
    return 1e3 * times * _duration(lambda: train_step(batch, 0.0, weights)), source


def blank_unroll(agent: Agent, batch: int) -> Unroll:
    """Create unrolls [L, B, ...] of zeros."""
    steps: Unroll = tf.nest.map_structure(
        lambda spec: tf.zeros([agent.length, batch, *spec.shape], spec.dtype),
        agent.step_spec._replace(initial_state=()),
    )
    return steps._replace(initial_state=agent.initial_state(batch))


def message_us(size: int) -> tuple[float, float, str]:
    """Look up the times in `_MESSAGES` of the largest messages no larger than a group's, and describe the source."""
    known = max(each for each in _MESSAGES if each <= size)
    server_us, host_us = _MESSAGES[known]
    return server_us, host_us, f"as for {known} Atari environments per message on a core of an EPYC"


def _duration(call: Callable[[], object]) -> float:
    """Return the median duration of a call in seconds; the first calls, which compile, don't count."""
    call()
    call()
    times = [time.perf_counter()]
    while len(times) < 2 or times[-1] < times[0] + SECONDS:
        call()
        times.append(time.perf_counter())
    return float(np.median(np.diff(times)))


class Plan(NamedTuple):
    """What a learner needs to run at full rate."""

    devices: DeviceSplit
    limits: dict[str, float]  # maximum agent steps/s of each part, the smallest first
    rate: float  # agent steps/s of the learner
    processes: int  # learner processes that share the accelerators, so that neither server nor lock limits them
    latency_seconds: float  # time from a group's observations to its actions, seconds
    actors: Actors  # actor processes, one per core; one group of each steps while the others wait
    up: float  # traffic to the learner, bytes/s
    down: float  # traffic to the actors, bytes/s
    unroll_bytes: int  # size of unrolls in progress and queued on each inference device, bytes
    kept_bytes: int  # size of the replay, or without replay of the training batch, bytes


def plan(experiment: Experiment, agent: Agent, rates: Rates, rtt_seconds: float) -> Plan:
    """Compute what an experiment's learner needs; raise a ConfigError if its accelerators can't divide the work."""
    size = experiment.actors.envs_per_group
    devices = _devices(experiment, rates.accelerators)
    acting, apart = len(devices.inference), not set(devices.inference) & set(devices.training)
    server, host, act = rates.server_us / 1e6 / size, rates.host_us / 1e6, rates.act_ms / 1e3 / rates.act_batch
    cpu = (server + host) / rates.learner_cores
    new_unrolls = acting * Sizes.of(experiment, agent, acting).new_unrolls
    update = rates.update_ms / 1e3 / len(devices.training) / (new_unrolls * agent.unroll_length)
    seconds_per_step = {SERVER: server, LOCK: LOCKED_SHARE * (server + host)}
    per_process = max(seconds_per_step.values())
    seconds_per_step |= {INFERENCE: (host + act) / acting, CORES: cpu}
    if apart:
        seconds_per_step[UPDATES] = update
    else:
        seconds_per_step[DEVICE] = act / acting + update + (0.0 if rates.accelerators else cpu)
    limits = {name: 1 / cost for name, cost in sorted(seconds_per_step.items(), key=lambda item: -item[1])}
    rate = min(limits.values())
    wanted = min(limits[name] for name in limits if name not in (SERVER, LOCK)) * per_process
    shares = [n for n in range(1, rates.accelerators + 1) if rates.accelerators % n == 0] or [1]
    processes = next((n for n in shares if n >= wanted), shares[-1])

    latency = rtt_seconds + ANSWER_ACT_STEPS * (1 if apart else SHARED) * rates.act_ms / 1e3
    cores = max(1, math.ceil(rate / rates.env_steps - 1e-9))
    hiding = 1 + math.ceil(latency * rate / cores / size - 1e-9)
    filling = math.ceil(acting * rates.act_batch / (cores * size))
    even = acting // math.gcd(acting, cores)  # each inference device serves the same number of groups
    actors = Actors(cores, math.ceil(max(hiding, filling) / even) * even, size, num_eval_envs=0)

    codec = StepCodec(experiment.env_spec(), size)
    up, down = (rate / size * (n * LINE_SHARE + MESSAGE_BYTES) for n in (codec.step_bytes, codec.actions_bytes))
    sizes = Sizes.of(dataclasses.replace(experiment, actors=actors), agent, acting)
    kept = sizes.num_kept * sizes.kept_nbytes
    return Plan(devices, limits, rate, processes, latency, actors, up, down, sizes.store_nbytes - kept, acting * kept)


def _devices(experiment: Experiment, accelerators: int) -> DeviceSplit:
    """Divide the devices into acting and training ones as the learner does, for any number of groups."""
    if not accelerators:
        split_devices(experiment, [f"CPU:{number}" for number in range(experiment.devices.logical_cpus)])
        return split_devices(dataclasses.replace(experiment, devices=Devices()), ["CPU:0"])
    named = (*experiment.devices.inference, *experiment.devices.training, "GPU:0")
    available = [f"{named[0].partition(':')[0]}:{number}" for number in range(accelerators)]
    divisible = Actors(math.lcm(*range(1, accelerators + 1)), 1, experiment.actors.envs_per_group, num_eval_envs=0)
    return split_devices(dataclasses.replace(experiment, actors=divisible), available)


def text(experiment: Experiment, rates: Rates, sources: Mapping[str, str], machine_cores: int, result: Plan) -> str:
    """Format the plan, at most 100 columns wide."""
    actors, size = result.actors, experiment.actors.envs_per_group
    devices, training = (", ".join(names) for names in (result.devices.inference, result.devices.training))
    limit, *others = result.limits
    machines_of, machines = f"number of {machine_cores}-core machines", math.ceil(actors.num_actors / machine_cores)
    processes = f"{result.processes} process{'es' * (result.processes > 1)}"
    kept = "training batch" if experiment.replay is None else "replay"
    hours = experiment.total_frames / (experiment.env.action_repeat * result.rate) / 3600
    rows = [
        ("from", f"{rates.env_steps:,.0f} steps/s", f"environments on one core ({sources['env_steps']})"),
        ("", f"{rates.act_ms:.3g} ms", f"act step of {rates.act_batch} on one device ({sources['act_ms']})"),
        ("", f"{rates.update_ms:.3g} ms", f"update on one device ({sources['update_ms']})"),
        ("", f"{rates.server_us:.3g} µs", f"server's thread, per message of {size} ({sources['server_us']})"),
        ("", f"{rates.host_us:.3g} µs", f"inference threads, per step ({sources['host_us']})"),
        ("learner", f"{experiment.env.action_repeat * result.rate:,.0f} frames/s", f"{result.rate:,.0f} agent steps/s"),
        ("", f"{hours:,.3g} hours", f"for the run's {experiment.total_frames:,} frames"),
        ("", "limited by", limit),
        *(("", f"{result.limits[other]:,.0f} steps/s", f"limit of {other}") for other in others),
        ("", processes, "of the learner, so that messages aren't the limit"),
        ("", "devices", f"acting: {devices}; training: {training}"),
        ("actors", f"{actors.num_actors:,} cores", f"to step environments; {machines_of}: {machines}"),
        ("", f"{actors.groups_per_actor} groups per core", f"of {size}, to step while others wait for actions"),
        ("", f"{1e3 * result.latency_seconds:.3g} ms", "from observations to actions, including the network"),
        ("", f"{actors.num_envs:,} environments", "in total, so that no core waits and batches can be full"),
        ("network", f"{8e-6 * result.up:,.3g} Mbit/s", "to the learner, including headers"),
        ("", f"{8e-6 * result.down:,.3g} Mbit/s", "back to the actors"),
        ("memory", f"{1e-6 * result.unroll_bytes:,.3g} MB", "unrolls in progress and queued, per inference device"),
        ("", f"{1e-6 * result.kept_bytes:,.3g} MB", kept),
    ]
    lines: list[str] = []
    for title, value, words in rows:
        head = f"{title:8}{value:>20}  "
        lines += [""] if title and lines else []
        lines += textwrap.wrap(words, 100, initial_indent=head, subsequent_indent=" " * len(head))
    example = f"--num_actors={actors.num_actors} --gin_param=Actors.groups_per_actor={actors.groups_per_actor}"
    return "\n".join([*lines, "", f"for example: {example}"])
