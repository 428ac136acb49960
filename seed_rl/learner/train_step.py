"""One update of an agent's weights."""

from __future__ import annotations

from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf

from seed_rl.agents.base import Agent
from seed_rl.devices import has_accelerator
from seed_rl.experiment import Optimizer
from seed_rl.rl import schedules
from seed_rl.types import Unroll

SCHEDULES = {"constant": schedules.constant, "linear": schedules.linear_decay}


class Update(NamedTuple):
    """What an update of the weights brought."""

    metrics: dict[str, float]
    """The loss's metrics, `gradient_norm` (before clipping) and `learning_rate`."""
    priorities: np.ndarray
    """float32 [B] of the batch's sequences; empty if the agent gives none."""


def build_optimizer(config: Optimizer) -> keras.optimizers.Optimizer:
    """The Keras optimizer of a config; its learning rate is set at every update."""
    if config.name == "adam":
        return keras.optimizers.Adam(
            config.learning_rate, beta_1=config.beta_1, beta_2=config.beta_2, epsilon=config.epsilon
        )
    return keras.optimizers.RMSprop(
        config.learning_rate, rho=config.decay, momentum=config.momentum, epsilon=config.epsilon
    )


class TrainStep:
    """Differentiates an agent's loss and applies the gradients, as one compiled function."""

    def __init__(self, agent: Agent, config: Optimizer):
        self.optimizer = build_optimizer(config)
        self._agent = agent
        self._config = config
        self._names: list[str] = []
        self.optimizer.build(list(agent.trainable_variables))
        self._compiled = tf.function(self._update, jit_compile=has_accelerator())

    def __call__(self, unroll: Unroll, progress: float, importance_weights: np.ndarray | None = None) -> Update:
        """Updates the weights from a batch of unrolls.

        Args:
          unroll: fields [L, B, ...].
          progress: the share of the run that is behind, in [0, 1].
          importance_weights: float32 [B] of sequences from a replay, else None.
        """
        weights = None if importance_weights is None else tf.constant(importance_weights, tf.float32)
        values = self._compiled(unroll, weights, tf.constant(progress, tf.float32)).numpy()
        count = len(self._names)
        return Update(dict(zip(self._names, values[:count].tolist(), strict=True)), values[count:])

    def _update(self, unroll: Unroll, importance_weights: tf.Tensor | None, progress: tf.Tensor) -> tf.Tensor:
        weights: list[Any] = [weight.value for weight in self._agent.trainable_variables]
        with tf.GradientTape() as tape:
            output = self._agent.loss(unroll, importance_weights)
        gradients = tape.gradient(output.loss, weights)
        learning_rate = self._config.learning_rate * SCHEDULES[self._config.schedule](progress)
        norm = self._apply(gradients, learning_rate)
        metrics = {**output.metrics, "gradient_norm": norm, "learning_rate": learning_rate}
        self._names = list(metrics)
        # One tensor, so that the host reads once.
        values = tf.stack([tf.cast(value, tf.float32) for value in metrics.values()])
        return values if output.priorities is None else tf.concat([values, output.priorities], axis=0)

    @tf.function(jit_compile=True)  # also on CPUs: it makes one pass over the weights of the dozen that the ops would
    def _apply(self, gradients: list[tf.Tensor], learning_rate: tf.Tensor) -> tf.Tensor:
        """Clips and applies the gradients; returns their norm before that."""
        norm = tf.linalg.global_norm(gradients)
        if self._config.clip_norm:
            gradients, _ = tf.clip_by_global_norm(gradients, self._config.clip_norm, use_norm=norm)
        self.optimizer.learning_rate.assign(learning_rate)
        self.optimizer.apply(gradients, list(self._agent.trainable_variables))
        return norm
