"""How fast the parts of an experiment are: from files of `scripts/bench.sh`, or as given on the command line."""

from __future__ import annotations

import dataclasses
import json
import os
from typing import Any, NamedTuple

from benchmarks.env import SUITES
from benchmarks.networks import NETWORKS
from seed_rl.capacity import Accelerator, Costs, Training
from seed_rl.config_files import load
from seed_rl.experiment import Experiment

GIVEN = "given"


class NoRate(Exception):
    """A rate that is neither measured nor given; the message is one sentence that says how to have it."""


@dataclasses.dataclass(frozen=True)
class Given:
    """What is known without a measurement; None: it is measured."""

    env_steps: float | None = None
    """Agent steps/s of one core."""
    act_ms: float | None = None
    act_batch: int | None = None
    update_ms: float | None = None
    """With the batch and unrolls of the experiment, on one device."""
    server_us: float | None = None
    """Of the server's thread, per message."""
    host_us: float | None = None
    """Of the inference thread besides the act step, per observation: batching, answers."""
    learner_cores: int | None = None
    accelerators: int | None = None


class Rates(NamedTuple):
    """The parts, and where each number is from, in words."""

    env_steps: float
    """Agent steps/s of one core."""
    device: Accelerator
    """What runs the act step; the cores together where there is none."""
    training: Training
    """On one such device."""
    costs: Costs
    cores: int
    """Of the learner's host."""
    accelerators: int
    """Of the learner; 0: the cores act and train."""
    sources: dict[str, str]
    """By `environment`, `act step`, `update`, `server`, `host`."""


def rates(experiment: Experiment, given: Given, measured: str) -> Rates:
    """The rates of an experiment's parts.

    Args:
      experiment: says which environments and which network.
      given: wins over what is measured.
      measured: directory of the files of `scripts/bench.sh`.

    Raises:
      NoRate: something is neither given nor there.
    """
    files = _Files(measured)
    env_steps, environment = _env_steps(experiment, given, files)
    device, act, act_hardware = _act(experiment, given, files)
    training, update = _training(experiment, given, files)
    costs, server, host = _costs(experiment, given, files)
    accelerators = len(act_hardware.get("accelerators", ())) if given.accelerators is None else given.accelerators
    cores = given.learner_cores or act_hardware.get("cores")
    if cores is None:
        raise NoRate("where --act_ms is given, --learner_cores must be too: no measurement says how many there are")
    sources = {"environment": environment, "act step": act, "update": update, "server": server, "host": host}
    return Rates(env_steps, device, training, costs, cores, accelerators, sources)


class _Files:
    def __init__(self, directory: str):
        self._directory = directory

    def read(self, benchmark: str, flag: str) -> dict[str, Any]:
        """The content of a benchmark's file, which the flag would be in place of."""
        path = os.path.join(self._directory, f"{benchmark}.json")
        try:
            with open(path, encoding="utf-8") as file:
                return json.load(file)
        except (OSError, ValueError) as error:
            raise NoRate(
                f"{path} can't be read ({error.strerror if isinstance(error, OSError) else error}): run "
                f"`scripts/bench.sh {benchmark}`, name another directory with --measured, or give {flag}"
            ) from error


def _env_steps(experiment: Experiment, given: Given, files: _Files) -> tuple[float, str]:
    if given.env_steps is not None:
        return given.env_steps, GIVEN
    suites = files.read("env", "--env_steps")["result"]["suites"]
    measured = {suite["suite"]: suite["rates"][0] for suite in suites if suite["rates"]}
    alike = [name for name in measured if SUITES[name].suite == experiment.env.suite]
    exact = [name for name in alike if SUITES[name].options.get("game") == getattr(experiment.env, "game", None)]
    if not alike:
        raise NoRate(f"no benchmark has measured environments of suite {experiment.env.suite!r}: give --env_steps")
    name = (exact or alike)[0]
    rate = measured[name]
    return rate["agent_steps"]["median"] / rate["threads"], f"env.json: {name}"


def _network_of(experiment: Experiment, flag: str) -> str:
    """The name of the experiment's network in the benchmarks."""
    for name, (gin_file, bindings) in NETWORKS.items():
        if _shape(load([gin_file], bindings)) == _shape(experiment):
            return name
    raise NoRate(f"no benchmark has measured this network with such observations: give {flag}")


def _shape(experiment: Experiment) -> tuple[Any, ...]:
    """What the time of a step depends on most."""
    agent = experiment.agent
    settings = ("torso", "hidden", "channels", "lstm_units", "frame_stack")
    return (type(agent), experiment.env_spec().observation, *(getattr(agent, name, None) for name in settings))


def _act(experiment: Experiment, given: Given, files: _Files) -> tuple[Accelerator, str, dict[str, Any]]:
    wanted = given.act_batch or experiment.inference.max_batch_size
    if given.act_ms is not None:
        return Accelerator(wanted, given.act_ms / 1000), GIVEN, {}
    network = _network_of(experiment, "--act_ms")
    content = files.read("act", "--act_ms")
    cell = _nearest(content["result"]["act"], experiment, network, wanted, "act", "--act_ms")
    source = f"act.json: {network}, {cell['dtype']}"
    return Accelerator(cell["batch"], cell["milliseconds"]["act"]["median"] / 1000), source, content["hardware"]


def _training(experiment: Experiment, given: Given, files: _Files) -> tuple[Training, str]:
    steps = experiment.unrolls_per_update * experiment.agent.unroll_length
    if given.update_ms is not None:
        return Training(steps, given.update_ms / 1000), GIVEN
    network = _network_of(experiment, "--update_ms")
    result = files.read("train", "--update_ms")["result"]
    cell = _nearest(result["updates"], experiment, network, experiment.batch_size, "train", "--update_ms")
    burns_in = hasattr(experiment.agent, "burn_in")
    measured = cell["batch"] * result["unroll_length"] * (2 if burns_in else 1)  # as long a burn-in as an unroll
    length = experiment.agent.unroll_length + getattr(experiment.agent, "burn_in", 0)
    factor = experiment.batch_size * length / measured
    source = f"train.json: {network}, {cell['dtype']}, batch {cell['batch']}, times {factor:.3g}"
    return Training(steps, factor * cell["milliseconds"]["median"] / 1000), source


def _nearest(
    cells: list[dict[str, Any]], experiment: Experiment, network: str, batch: int, benchmark: str, flag: str
) -> dict[str, Any]:
    dtype = getattr(experiment.agent, "dtype", "float32")
    measured = [cell for cell in cells if (cell["network"], cell["dtype"]) == (network, dtype)]
    if not measured:
        raise NoRate(
            f"{benchmark}.json has no {network} network in {dtype}: measure with --networks={network} "
            f"--dtypes={dtype}, or give {flag}"
        )
    return min(measured, key=lambda cell: max(cell["batch"] / batch, batch / cell["batch"]))


def _costs(experiment: Experiment, given: Given, files: _Files) -> tuple[Costs, str, str]:
    """Costs of the wire and of batching, of the largest measured messages that aren't larger than the experiment's.

    Large messages cost less per observation, so that costs of smaller ones are on the safe side. Where only larger ones
    were measured, a message is taken to cost as much as one of those.
    """
    size = experiment.actors.envs_per_group
    if given.server_us is not None and given.host_us is not None:
        per_message, per_observation = given.server_us / 1e6, given.host_us / 1e6
        return Costs(size, per_message, per_message / size, per_observation, 0.0, 0.0), GIVEN, GIVEN
    groups = files.read("fleet", "--server_us and --host_us")["result"]["groups"]
    groups = sorted((group for group in groups if "costs" in group), key=lambda group: group["group_size"])
    if not groups:
        raise NoRate("fleet.json has no costs, as no fleet was served: give --server_us and --host_us")
    smaller = [group for group in groups if group["group_size"] <= size]
    chosen = smaller[-1] if smaller else groups[0]
    costs = Costs(**chosen["costs"])
    source = f"fleet.json: {costs.group_size} environments per message"
    if not smaller:
        costs = costs._replace(
            group_size=size,
            transport_per_observation=costs.transport_per_observation * costs.group_size / size,
            host_per_observation=costs.host_per_observation * costs.group_size / size,
        )
    server, host = source, source
    if given.server_us is not None:
        seconds = given.server_us / 1e6
        costs = costs._replace(group_size=size, server_per_message=seconds, transport_per_observation=seconds / size)
        server = GIVEN
    if given.host_us is not None:
        costs, host = costs._replace(host_per_observation=given.host_us / 1e6), GIVEN
    return costs, server, host
