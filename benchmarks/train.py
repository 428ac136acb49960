"""The update by batch, network and dtype: forward, backward and the optimizer, and its share of the peak FLOP/s.

Unrolls of random frames are on the device already. FLOPs are those of the network's convolutions and matrix products,
times 3 for steps that gradients flow through (the backward pass takes two products for each of the forward pass), and
times 1 for the others: R2D2's burn-in and its target network. The peak is what a product of two large matrices of the
same dtype reaches, measured in turn with the update.
"""

from __future__ import annotations

import argparse
import dataclasses
from typing import Any

import numpy as np
import tensorflow as tf

from benchmarks import flags, networks
from benchmarks.flops import forward_flops, matrix_product
from benchmarks.text import columns, number
from benchmarks.timing import milliseconds, ratio, spread
from seed_rl.agents.base import Agent, ReplayAgent
from seed_rl.experiment import Experiment
from seed_rl.inference.act_step import unroll_step_spec
from seed_rl.learner.train_step import TrainStep
from seed_rl.specs import EnvSpec
from seed_rl.types import Unroll

QUICK = {"networks": "shallow", "dtypes": "float32", "batches": "1", "matrix_size": 128, "seconds": 0.1, "repeats": 2}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Its flags."""
    networks.add_arguments(parser)
    parser.add_argument("--batches", type=flags.counts, default="8,32", help="unrolls per update")
    parser.add_argument("--unroll_length", type=flags.count, default=20, help="agent steps; R2D2: burn-in of as many")
    parser.add_argument("--matrix_size", type=flags.count, default=2048, help="rows of the matrices of the peak")
    flags.add_timing(parser, seconds=1.5)


def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    """Rates of updates of each batch of each network."""
    measured = []
    for network, dtype, experiment in networks.chosen(arguments):
        sized = _with_length(experiment, arguments.unroll_length)
        env_spec = sized.env.spec()
        agent = sized.build_agent()
        for batch in arguments.batches:
            cell = _update(sized, agent, env_spec, batch, arguments)
            measured.append({"network": network, "dtype": dtype, "batch": batch, **cell})
    return {"unroll_length": arguments.unroll_length, "updates": measured}


def _with_length(experiment: Experiment, unroll_length: int) -> Experiment:
    lengths = {"unroll_length": unroll_length}
    if hasattr(experiment.agent, "burn_in"):
        lengths["burn_in"] = unroll_length
    return dataclasses.replace(experiment, agent=dataclasses.replace(experiment.agent, **lengths))


def _update(
    experiment: Experiment, agent: Agent, env_spec: EnvSpec, batch: int, arguments: argparse.Namespace
) -> dict[str, Any]:
    # Learning the same random batch again and again might diverge; standing still takes as long.
    train_step = TrainStep(agent, dataclasses.replace(experiment.optimizer, learning_rate=0.0))
    unroll = random_unroll(agent, env_spec, batch)
    weights = np.ones(batch, np.float32) if isinstance(agent, ReplayAgent) else None
    dtype = "bfloat16" if getattr(experiment.agent, "dtype", "") == "mixed_bfloat16" else "float32"
    product, product_flops = matrix_product(dtype, arguments.matrix_size)
    works = {"update": lambda: train_step(unroll, 0.0, weights), "product": product}
    times = milliseconds(works, arguments.seconds, arguments.repeats)

    flops = forward_flops(agent, env_spec) * batch * _passes_per_sequence(agent)
    achieved, peak = ([1e3 * n / t for t in times[name]] for name, n in (("update", flops), ("product", product_flops)))
    per_second = [1e3 / value for value in times["update"]]
    return {
        "milliseconds": spread(times["update"]),
        "unrolls": spread([batch * rate for rate in per_second]),
        "agent_steps": spread([batch * agent.unroll_length * rate for rate in per_second]),
        "flops_per_update": flops,
        "achieved_flops": spread(achieved),
        "peak_flops": spread(peak),
        "utilisation": ratio(achieved, peak),
    }


def _passes_per_sequence(agent: Agent) -> int:
    """Forward passes of one step that an update with one sequence takes as many operations as."""
    if not isinstance(agent, ReplayAgent):
        return 3 * agent.length
    burn_in = agent.overlap - 1
    return burn_in + 3 * (agent.length - burn_in) + agent.length


def random_unroll(agent: Agent, env_spec: EnvSpec, batch: int) -> Unroll:
    """Unrolls [L, B, ...] of random frames on the device; all else in them is zero."""
    step_spec = unroll_step_spec(agent, env_spec)

    def blank(spec: tf.TensorSpec) -> tf.Tensor:
        return tf.zeros([agent.length, batch, *spec.shape], spec.dtype)

    def frames(spec: tf.TensorSpec) -> tf.Tensor:
        shape = [agent.length, batch, *spec.shape]
        return tf.cast(tf.random.stateless_uniform(shape, [0, 0], 0, 256, tf.int32), spec.dtype)

    unroll = tf.nest.map_structure(blank, step_spec._replace(initial_state=()))
    observation = tf.nest.map_structure(frames, step_spec.env_output.observation)
    return unroll._replace(
        initial_state=agent.initial_state(batch), env_output=unroll.env_output._replace(observation=observation)
    )


def table(result: dict[str, Any]) -> str:
    """For people."""
    rows = [
        [
            cell["network"],
            cell["dtype"],
            str(cell["batch"]),
            *(number(cell[name]["median"]) for name in ("milliseconds", "unrolls", "agent_steps")),
            *(number(cell[name]["median"] / 1e9) for name in ("achieved_flops", "peak_flops")),
            f"{cell['utilisation']['median']:.2f}",
        ]
        for cell in result["updates"]
    ]
    heads = ["network", "dtype", "batch", "update\nms", "unrolls/s", "agent\nsteps/s"]
    return columns([*heads, "achieved\nGFLOP/s", "peak\nGFLOP/s", "share"], rows)
