"""Floating-point operations of networks: two per multiplication in a convolution or a matrix product.

Everything else (activations, pooling, sampling) is ignored; it is less than 1 % in these networks.
"""

from typing import Any

import tensorflow as tf

from benchmarks.streams import random_output
from seed_rl.agents.base import Agent
from seed_rl.experiment import Experiment
from seed_rl.specs import EnvSpec


def update_flops(experiment: Experiment, agent: Agent) -> int:
    """Count the operations of an update per sequence in the batch.

    A backward pass counts as two forward passes. Burn-in steps have no backward pass, and the target network of agents
    with a replay runs forward over the whole sequence.
    """
    burn_in = agent.overlap - 1
    passes = burn_in + 3 * (agent.length - burn_in)
    if experiment.agent.learns_from_replay:
        passes += agent.length
    return passes * forward_flops(agent, experiment.env_spec())


def forward_flops(agent: Agent, env_spec: EnvSpec) -> int:
    """Count the operations of one step of acting for one environment."""
    action = env_spec.action.tensor
    prev_action = tf.zeros([1, *action.shape], action.dtype)
    observation = tf.nest.map_structure(tf.constant, random_output(env_spec, 1))
    inputs = prev_action, observation, agent.initial_state(1), tf.constant([0]), tf.constant([0, 1])
    return _graph_flops(tf.function(agent.act, autograph=False).get_concrete_function(*inputs).graph)


def _graph_flops(graph: Any) -> int:
    """Count the operations of a graph and the functions it calls; loops count once, because they have a single step."""
    total = 0
    for operation in graph.get_operations():
        if operation.type == "Conv2D":
            height, width, channels, _ = operation.inputs[1].shape
            total += 2 * operation.outputs[0].shape.num_elements() * height * width * channels
        elif operation.type == "MatMul":
            total += 2 * operation.outputs[0].shape.num_elements() * operation.inputs[0].shape[-1]
        elif "Conv" in operation.type or "MatMul" in operation.type or operation.type == "Einsum":
            raise NotImplementedError(f"operations of type {operation.type} are not counted yet")
        for attribute in operation.node_def.attr.values():
            if attribute.HasField("func"):
                total += _graph_flops(graph._get_function(attribute.func.name).graph)  # no public interface
    return total
