"""How many floating-point operations a network takes, and how many a second the machine can do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from seed_rl.agents.base import Agent, blank_step
from seed_rl.specs import EnvSpec


def forward_flops(agent: Agent, env_spec: EnvSpec) -> int:
    """Operations of acting for one environment once: two for each multiplication in a convolution or matrix product.

    Everything else (activations, pooling, sampling) is left out; it is less than a hundredth in these networks.
    """
    prev_action, env_output = tf.nest.map_structure(lambda t: t[0], blank_step(env_spec))
    inputs = prev_action, env_output, agent.initial_state(1), tf.constant([0]), tf.constant([0, 1])
    return _flops(tf.function(agent.act).get_concrete_function(*inputs).graph)


def _flops(graph: Any) -> int:
    """Of a graph with the functions it calls, each loop taken for one round: there is one step to loop over."""
    total = 0
    for operation in graph.get_operations():
        if operation.type == "Conv2D":
            height, width, channels, _ = operation.inputs[1].shape
            total += 2 * operation.outputs[0].shape.num_elements() * height * width * channels
        elif operation.type == "MatMul":
            total += 2 * operation.outputs[0].shape.num_elements() * operation.inputs[0].shape[-1]
        elif "Conv" in operation.type or "MatMul" in operation.type or operation.type == "Einsum":
            raise NotImplementedError(f"operations of {operation.type} are not counted yet")
        for attribute in operation.node_def.attr.values():
            if attribute.HasField("func"):
                total += _flops(graph._get_function(attribute.func.name).graph)  # TensorFlow has no public way
    return total


def matrix_product(dtype: str, size: int) -> tuple[Callable[[], Any], int]:
    """A product of two square matrices, and how many operations it takes: the most that the machine is good for."""
    matrix = tf.random.stateless_uniform([size, size], [0, 0], dtype=dtype)

    @tf.function
    def product(a: tf.Tensor, b: tf.Tensor) -> tf.Tensor:
        return tf.matmul(a, b)

    return lambda: product(matrix, matrix)[0, 0].numpy(), 2 * size**3
