"""Capacity planning for `seed_rl plan`: the actors, network and memory that a learner needs to run at full rate.

Rates are in agent steps per second. The learner is as fast as its slowest part:

- the server's thread takes and answers messages one after the other;
- one inference thread for each device that acts batches the observations and waits for the act step;
- these threads take turns with the process's interpreter lock, which they hold for two thirds of their CPU time;
- act steps and updates take turns where a device does both (the CPU time of the threads above adds to theirs where the
  device is the cores); otherwise an update takes its time on one device over the number of devices that train.

An actor's core never idles if its other groups step for at least as long as one group waits for its actions: a round
trip and two act steps, the one that is running and its own. Left out are evaluation environments, resets that take
longer than a step, averaging gradients, and other load on the machines.

The server's thread and the lock limit a process. If its accelerators can do more, they need several processes, even
on one machine: each is a learner host with a share of the accelerators.
"""

from __future__ import annotations

import dataclasses
import json
import math
import os
import pathlib
import textwrap
from collections.abc import Mapping
from importlib import resources
from typing import Any, NamedTuple

from seed_rl.agents.base import Agent
from seed_rl.experiment import Actors, ConfigError, Devices, Experiment
from seed_rl.experiment.sizes import Sizes
from seed_rl.learner.split import Split, split
from seed_rl.networks.config import TrunkConfig
from seed_rl.transport.codec import StepCodec

SERVER = "the server's thread, which takes and answers the messages"
LOCK = "the interpreter's lock, which the server's and the inference threads share"
INFERENCE = "the inference threads: batching and acting"
CORES = "the learner's cores: transport and batching"
DEVICE = "act steps and updates, which take turns"
UPDATES = "the updates, on separate training devices"

ANSWER_ACT_STEPS = 2
LOCKED_SHARE = 0.65
"""The share of the CPU time per message in which the interpreter's lock is held; measured, 0.55 to 0.66."""
SHARED = 2
"""Factor by which an update on the same device slows down an act step."""
LINE_SHARE = 1538 / 1448
"""Bytes on an Ethernet line per byte of TCP payload, for full packets."""
MESSAGE_BYTES = 100
"""Overhead per message: HTTP/2, gRPC and a partly filled packet."""
MEASURED = os.path.join("runs", "bench")
"""Directory in which `scripts/bench.sh` stores measurements of this machine."""
RECORDED = str(pathlib.Path(str(resources.files("seed_rl"))).parent / "docs" / "results" / "performance")
"""Directory with recorded measurements of another machine, present only in a clone."""


def measurements() -> str:
    """Return the directory of this machine's measurements, or of the recorded ones if only these exist."""
    return RECORDED if os.path.isdir(RECORDED) and not os.path.isdir(MEASURED) else MEASURED


def recorded_on() -> str:
    """Describe the machine of the recorded measurements."""
    hardware = _read(RECORDED, "act", "--act_ms")["hardware"]
    return f"as measured on another machine, {hardware['cores']} cores of {hardware['processor']}"


class Rates(NamedTuple):
    """Speeds of the parts of an experiment, named like the flags that set them."""

    env_steps: float
    """Agent steps/s of environments on one core."""
    act_ms: float
    """Duration of an act step on one device (all cores count as one device), milliseconds."""
    act_batch: int
    """Number of environments in that act step."""
    update_ms: float
    """Duration of an update of the experiment's batch on one device, milliseconds."""
    server_us: float
    """CPU time of the server thread per message, microseconds."""
    host_us: float
    """CPU time of an inference thread per observation, without the act step, microseconds."""
    learner_cores: int
    """Number of cores of the learner machine."""
    accelerators: int
    """Number of accelerators of the learner; 0: its cores act and train."""


def find_rates(
    experiment: Experiment, agent: Agent, given: Mapping[str, float | None], measured: str
) -> tuple[Rates, dict[str, str]]:
    """Look up the rates of an experiment, and describe the source of each.

    Args:
      experiment: defines the environments, group sizes and batch sizes.
      agent: agent of the experiment; its network is identified by the number of weights.
      given: rates that override measurements; others are None or missing.
      measured: directory with the results of `scripts/bench.sh`.

    Raises:
      ConfigError: a rate is neither given nor measured; the message says how to measure it.
    """
    rates: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    sources = dict.fromkeys(rates, "given")

    def add(source: str, **found: float) -> None:
        for name in found.keys() - rates.keys():
            rates[name], sources[name] = found[name], source

    if "env_steps" not in rates:
        source, env_steps = _environments(experiment, _read(measured, "env", "--env_steps")["result"]["suites"])
        add(source, env_steps=env_steps)
    if "act_ms" not in rates:
        content = _read(measured, "act", "--act_ms")
        batch = rates.pop("act_batch", experiment.inference.max_batch_size)
        source, cell = _nearest("act.json", content["result"]["act"], experiment, agent, batch, "--act_ms")
        hardware = content["hardware"]
        add(source, act_ms=cell["milliseconds"]["act"]["median"], act_batch=cell["batch"])
        add(source, learner_cores=hardware["cores"], accelerators=len(hardware["accelerators"]))
    if "update_ms" not in rates:
        cells = _read(measured, "train", "--update_ms")["result"]["updates"]
        source, cell = _nearest("train.json", cells, experiment, agent, experiment.batch_size, "--update_ms")
        factor = experiment.batch_size * agent.length / (cell["batch"] * cell["length"])
        add(f"{source}, times {factor:.3g}", update_ms=factor * cell["milliseconds"]["median"])
    if not rates.keys() >= {"server_us", "host_us"}:
        rows = _read(measured, "transport", "--server_us and --host_us")["result"]["server"]
        source, server_us, host_us = _messages(experiment.actors.envs_per_group, rows)
        add(source, server_us=server_us, host_us=host_us)
    if "learner_cores" not in rates:
        raise ConfigError("--act_ms requires --learner_cores, because no measurement gives their number")
    add("default", act_batch=experiment.inference.max_batch_size, accelerators=0)
    return Rates(**rates), sources


def _read(directory: str, benchmark: str, flag: str) -> dict[str, Any]:
    path = os.path.join(directory, f"{benchmark}.json")
    try:
        with open(path, encoding="utf-8") as file:
            return json.load(file)
    except (OSError, ValueError) as error:
        remedy = f"run `scripts/bench.sh {benchmark}`, name another directory with --measured, or give {flag}"
        raise ConfigError(f"{path} can't be read ({getattr(error, 'strerror', error)}): {remedy}") from error


def _environments(experiment: Experiment, suites: list[dict[str, Any]]) -> tuple[str, float]:
    """Find the measured environments with the most settings in common, and their agent steps/s on one core."""
    env = experiment.env.describe()
    alike = [row for row in suites if row["rates"] and row["description"]["suite"] == env.suite]
    if not alike:
        raise ConfigError(f"no benchmark has measured environments of suite {env.suite!r}: give --env_steps")
    row = max(alike, key=lambda row: len(env.options.items() & row["description"]["options"].items()))
    rate = row["rates"][0]
    return f"env.json: {row['suite']}", rate["agent_steps"]["median"] / rate["threads"]


def _nearest(
    file: str, cells: list[dict[str, Any]], experiment: Experiment, agent: Agent, batch: float, flag: str
) -> tuple[str, dict[str, Any]]:
    """Find the measurement of the agent's network with the closest batch size."""
    weights = sum(int(variable.value.shape.num_elements()) for variable in agent.trainable_variables)
    dtype = experiment.agent.dtype if isinstance(experiment.agent, TrunkConfig) else "float32"
    # The number of weights varies slightly with the number of actions.
    alike = [cell for cell in cells if cell["dtype"] == dtype and math.isclose(cell["weights"], weights, rel_tol=0.01)]
    if not alike:
        raise ConfigError(f"{file} has no network of {weights:,} weights in {dtype}: measure it, or give {flag}")
    cell = min(alike, key=lambda cell: max(cell["batch"] / batch, batch / cell["batch"]))
    return f"{file}: {cell['network']}, {dtype}, batch {cell['batch']}", cell


def _messages(size: int, rows: list[dict[str, Any]]) -> tuple[str, float, float]:
    """Find `server_us` and `host_us` for the largest measured messages no larger than a group's, or the smallest ones.

    Larger messages cost less per observation, so this errs on the safe side.
    """
    wire = [row for row in rows if row["through"] == "wire"] or rows
    sizes = {row["group_size"] for row in wire}
    chosen = max((each for each in sizes if each <= size), default=min(sizes))
    busiest = max((row for row in wire if row["group_size"] == chosen), key=lambda row: row["messages"]["median"])
    host_us = busiest["inference_thread_us"]["median"] * max(1.0, chosen / size)
    source = f"transport.json: {chosen} environments per message"
    return source, busiest["server_thread_us"]["median"], host_us


class Plan(NamedTuple):
    """What a learner needs to run at full rate."""

    devices: Split
    limits: dict[str, float]
    """Maximum agent steps/s of each part, the smallest first."""
    rate: float
    """Agent steps/s of the learner."""
    processes: int
    """Learner processes among which the accelerators are divided, so that neither server nor lock limits them."""
    latency_seconds: float
    """Time from a group's observations to its actions, seconds."""
    actors: Actors
    """Actor processes, one per core; one group of each steps while the others wait."""
    up: float
    """Traffic to the learner, bytes/s."""
    down: float
    """Traffic to the actors, bytes/s."""
    unroll_bytes: int
    """Size of unrolls in progress and queued on each inference device, bytes."""
    kept_bytes: int
    """Size of the replay, or without replay of the training batch, bytes."""


def plan(experiment: Experiment, agent: Agent, rates: Rates, rtt_seconds: float) -> Plan:
    """Compute what an experiment's learner needs, given the round-trip time to its actors.

    Raises:
      BadDevices: the work can't be divided among the accelerators.
    """
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
    hiding = 1 + math.ceil(latency * rates.env_steps / size - 1e-9)
    filling = math.ceil(acting * rates.act_batch / (cores * size))
    even = acting // math.gcd(acting, cores)  # each inference device serves the same number of groups
    actors = Actors(cores, math.ceil(max(hiding, filling) / even) * even, size, num_eval_envs=0)

    codec = StepCodec(experiment.env_spec(), size)
    up, down = (rate / size * (n * LINE_SHARE + MESSAGE_BYTES) for n in (codec.step_bytes, codec.actions_bytes))
    sizes = Sizes.of(dataclasses.replace(experiment, actors=actors), agent, acting)
    kept = sizes.num_kept * sizes.slot_nbytes
    return Plan(devices, limits, rate, processes, latency, actors, up, down, sizes.store_nbytes - kept, acting * kept)


def _devices(experiment: Experiment, accelerators: int) -> Split:
    """Divide the devices into acting and training ones as the learner does, for any number of groups."""
    if not accelerators:
        split(experiment, [f"CPU:{number}" for number in range(experiment.devices.logical_cpus)])
        return split(dataclasses.replace(experiment, devices=Devices()), ["CPU:0"])
    named = (*experiment.devices.inference, *experiment.devices.training, "GPU:0")
    available = [f"{named[0].partition(':')[0]}:{number}" for number in range(accelerators)]
    divisible = Actors(math.lcm(*range(1, accelerators + 1)), 1, experiment.actors.envs_per_group, num_eval_envs=0)
    return split(dataclasses.replace(experiment, actors=divisible), available)


def text(experiment: Experiment, rates: Rates, sources: Mapping[str, str], machine_cores: int, result: Plan) -> str:
    """Format the plan, at most 100 columns wide."""
    actors, size = result.actors, experiment.actors.envs_per_group
    devices, training = (", ".join(names) for names in (result.devices.inference, result.devices.training))
    limit, *others = result.limits
    machines = math.ceil(actors.num_actors / machine_cores)
    processes = f"{result.processes} process{'es' * (result.processes > 1)}"
    kept = "training batch" if experiment.replay is None else "replay"
    rows = [
        ("from", f"{rates.env_steps:,.0f} steps/s", f"environments on one core ({sources['env_steps']})"),
        ("", f"{rates.act_ms:.3g} ms", f"act step of {rates.act_batch} on one device ({sources['act_ms']})"),
        ("", f"{rates.update_ms:.3g} ms", f"update on one device ({sources['update_ms']})"),
        ("", f"{rates.server_us:.3g} µs", f"server's thread, per message of {size} ({sources['server_us']})"),
        ("", f"{rates.host_us:.3g} µs", f"inference threads, per step ({sources['host_us']})"),
        ("learner", f"{experiment.env.action_repeat * result.rate:,.0f} frames/s", f"{result.rate:,.0f} agent steps/s"),
        ("", "limited by", limit),
        *(("", f"{result.limits[other]:,.0f} steps/s", f"limit of {other}") for other in others),
        ("", processes, "of the learner, so that messages aren't the limit"),
        ("", "devices", f"acting: {devices}; training: {training}"),
        (
            "actors",
            f"{actors.num_actors:,} cores",
            f"to step environments; number of {machine_cores}-core machines: {machines}",
        ),
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
