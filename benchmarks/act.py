"""The compiled act step by batch, network and dtype, and its share of what the network alone takes.

The act step is all that happens to a batch on the inference thread: copying it into place, gathering states, the
network, sampling, writing the unrolls, scattering states and reading the actions back. The network alone is `agent.act`
with its inputs on the device already, compiled as a plain graph and by XLA; the faster of both is what the act step is
compared with. They take turns, so that a drifting machine meets all alike. The bookkeeping of the unrolls, which also
runs on that thread, is given apart.
"""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from benchmarks import flags, networks
from benchmarks.load import random_output
from benchmarks.text import columns, number
from benchmarks.timing import milliseconds, ratio, spread
from seed_rl.agents.base import Agent
from seed_rl.buffers.unroll_store import StepWrites
from seed_rl.experiment import Actors, Experiment
from seed_rl.inference.acting import Acting
from seed_rl.inference.cursor import WritePlan
from seed_rl.specs import EnvSpec

QUICK = {"networks": "shallow", "dtypes": "float32", "batches": "2", "seconds": 0.1, "repeats": 2}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Its flags."""
    networks.add_arguments(parser)
    parser.add_argument("--batches", type=flags.counts, default="1,32,256", help="environments per act step")
    flags.add_timing(parser, seconds=0.6)


def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    """Milliseconds of each batch through each network."""
    measured = []
    for network, dtype, experiment in networks.chosen(arguments):
        env_spec = experiment.env.spec()
        agent = experiment.build_agent()
        for batch in arguments.batches:
            times = _times(experiment, agent, env_spec, batch, arguments)
            measured.append({"network": network, "dtype": dtype, "batch": batch, **times})
    return {"act": measured}


def _times(
    experiment: Experiment, agent: Agent, env_spec: EnvSpec, batch: int, arguments: argparse.Namespace
) -> dict[str, Any]:
    stepper = Stepper(experiment, agent, env_spec, batch)
    graph, xla = (_network_alone(agent, env_spec, batch, jit_compile) for jit_compile in (False, True))
    works = {"act": stepper.act, "bookkeeping": stepper.plan, "graph": graph, "xla": xla}
    times = milliseconds(works, arguments.seconds, arguments.repeats)
    bare = min(("graph", "xla"), key=lambda name: spread(times[name])["median"])
    return {
        "milliseconds": {name: spread(values) for name, values in times.items()},
        "bare": bare,
        "ratio": ratio(times["act"], times[bare]),
        "agent_steps": spread([1e3 * batch / value for value in times["act"]]),
    }


class Stepper:
    """Acting for one full batch of environments, all of which are learned from."""

    def __init__(self, experiment: Experiment, agent: Agent, env_spec: EnvSpec, batch: int):
        """
        Args:
          experiment: everything but the number of environments.
          agent: chooses the actions.
          env_spec: of one environment.
          batch: environments.
        """
        inference = dataclasses.replace(experiment.inference, max_batch_size=batch)
        # With every field given: gin would fill in the experiment's.
        actors = Actors(num_actors=1, groups_per_actor=1, envs_per_group=batch, num_eval_envs=0)
        sized = dataclasses.replace(experiment, actors=actors, inference=inference)
        self._acting = Acting(sized, agent, env_spec, experiment.seed, learner_slots=0)
        self._env_ids = np.arange(batch, dtype=np.int32)
        self._restarted = np.zeros(batch, bool)
        self._output = random_output(env_spec, batch)
        self._acting.cursor.restart(self._env_ids)
        self._plan = self.plan()

    def plan(self) -> WritePlan:
        """One step's bookkeeping: where it is to be written. Finished unrolls are free again at once."""
        self._plan = self._acting.cursor.advance(self._env_ids)
        self._acting.pool.release(self._plan.finished)
        return self._plan

    def act(self) -> np.ndarray:
        """One act step, written to where the last `plan` says."""
        writes = StepWrites(self._plan.slots, self._plan.positions, self._plan.opened)
        return self._acting.act_step(self._env_ids, self._restarted, writes, [self._output])


def _network_alone(agent: Agent, env_spec: EnvSpec, batch: int, jit_compile: bool) -> Callable[[], np.ndarray]:
    action = env_spec.action.tensor
    inputs = (
        tf.zeros([batch, *action.shape], action.dtype),
        tf.nest.map_structure(tf.constant, random_output(env_spec, batch)),
        agent.initial_state(batch),
        tf.range(batch),
        tf.constant([0, 1]),
    )
    forward = tf.function(agent.act, jit_compile=jit_compile)
    return lambda: forward(*inputs).action.numpy()


def table(result: dict[str, Any]) -> str:
    """For people."""
    rows = []
    for cell in result["act"]:
        times = [number(cell["milliseconds"][name]["median"]) for name in ("act", "graph", "xla", "bookkeeping")]
        share = f"{cell['ratio']['median']:.2f}"
        steps = number(cell["agent_steps"]["median"])
        rows.append([cell["network"], cell["dtype"], str(cell["batch"]), *times, share, steps])
    heads = [
        "network",
        "dtype",
        "batch",
        "act step\nms",
        "network\ngraph, ms",
        "network\nXLA, ms",
        "book-\nkeeping, ms",
    ]
    return columns([*heads, "act /\nnetwork", "agent\nsteps/s"], rows)
