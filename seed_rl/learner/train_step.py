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
    """Differentiates an agent's loss and applies the gradients, as one compiled function.

    Under a strategy of several replicas each has its part of the batch; gradients and metrics are averaged over them
    before the gradients are clipped, so that an update is the same for any number of replicas.
    """

    def __init__(
        self,
        agent: Agent,
        config: Optimizer,
        strategy: tf.distribute.Strategy | None = None,
        local_replicas: int = 1,
    ):
        """
        Args:
          agent: what is updated; made in the strategy's scope.
          config: of the optimizer.
          strategy: of the replicas; None: a single device.
          local_replicas: those of this process.
        """
        self._strategy = strategy or tf.distribute.get_strategy()
        with self._strategy.scope():
            self.optimizer = build_optimizer(config)
            self.optimizer.build(list(agent.trainable_variables))
        self._agent = agent
        self._config = config
        self._replicas = self._strategy.num_replicas_in_sync
        self._local_replicas = local_replicas
        self._names: list[str] = []
        if self._replicas == 1:
            self._compiled = tf.function(self._update, jit_compile=has_accelerator())
        else:
            self._compiled = tf.function(self._update_replicas)

    def __call__(self, unroll: Unroll, progress: float, importance_weights: np.ndarray | None = None) -> Update:
        """Updates the weights from a batch of unrolls.

        Args:
          unroll: fields [L, B, ...], or the parts [L, B / replicas, ...] of each replica of this process.
          progress: the share of the run that is behind, in [0, 1].
          importance_weights: float32 [B] of this process's sequences from a replay, else None.
        """
        weights = None if importance_weights is None else tf.constant(importance_weights, tf.float32)
        values = self._compiled(unroll, weights, tf.constant(progress, tf.float32)).numpy()
        count = len(self._names)
        return Update(dict(zip(self._names, values[:count].tolist(), strict=True)), values[count:])

    def _update(self, unroll: Unroll, importance_weights: tf.Tensor | None, progress: tf.Tensor) -> tf.Tensor:
        gradients, metrics, priorities = self._differentiate(unroll, importance_weights)
        learning_rate = self._learning_rate(progress)
        norm = self._apply(gradients, learning_rate)
        return tf.concat([self._values(metrics, norm, learning_rate), *priorities], axis=0)

    def _update_replicas(self, unroll: Unroll, importance_weights: tf.Tensor | None, progress: tf.Tensor) -> tf.Tensor:
        replicas, local = self._replicas, self._local_replicas
        # What TPUStrategy runs is compiled as a whole.
        compiled = has_accelerator() and not isinstance(self._strategy, tf.distribute.TPUStrategy)
        differentiate = tf.function(self._differentiate, jit_compile=compiled)
        learning_rate = self._learning_rate(progress)

        def on_replica(unroll: Unroll) -> tuple[tf.Tensor, list[tf.Tensor]]:
            context = tf.distribute.get_replica_context()
            weights = importance_weights
            if weights is not None:
                weights = tf.reshape(weights, [local, -1])[context.replica_id_in_sync_group % local]
            gradients, metrics, priorities = differentiate(unroll, weights)
            gradients = context.all_reduce("mean", gradients)
            metrics = self._over_replicas(context.all_gather(tf.stack(metrics)[None], axis=0), len(metrics))
            gradients, norm = self._clip(gradients)
            # The optimizer adds up what the replicas bring.
            self.optimizer.apply([g / replicas for g in gradients], list(self._agent.trainable_variables))
            return self._values(metrics, norm, learning_rate), priorities

        self.optimizer.learning_rate.assign(learning_rate)
        values, priorities = self._strategy.run(on_replica, (unroll,))
        parts = [self._strategy.experimental_local_results(part) for part in priorities]
        return tf.concat(
            [self._strategy.experimental_local_results(values)[0], *(p for ps in parts for p in ps)], axis=0
        )

    def _differentiate(
        self, unroll: Unroll, importance_weights: tf.Tensor | None
    ) -> tuple[list[tf.Tensor], list[tf.Tensor], list[tf.Tensor]]:
        """The gradients, the metrics of `_names`, and the priorities, if the agent gives any."""
        weights: list[Any] = [weight.value for weight in self._agent.trainable_variables]
        with tf.GradientTape() as tape:
            output = self._agent.loss(unroll, importance_weights)
        gradients = tape.gradient(output.loss, weights)
        self._names = [*output.metrics, "gradient_norm", "learning_rate"]
        metrics = [tf.cast(value, tf.float32) for value in output.metrics.values()]
        return gradients, metrics, [] if output.priorities is None else [output.priorities]

    def _over_replicas(self, metrics: tf.Tensor, count: int) -> list[tf.Tensor]:
        """The metrics of all, from those of each: float32 [replicas, count]."""
        columns = tf.unstack(tf.reshape(metrics, [self._replicas, count]), axis=1)
        is_maximum = [name.rpartition("/")[2].startswith("max_") for name in self._names]
        return [
            tf.reduce_max(column) if maximum else tf.reduce_mean(column)
            for column, maximum in zip(columns, is_maximum, strict=False)
        ]

    def _learning_rate(self, progress: tf.Tensor) -> tf.Tensor:
        return self._config.learning_rate * SCHEDULES[self._config.schedule](progress)

    @staticmethod
    def _values(metrics: list[tf.Tensor], norm: tf.Tensor, learning_rate: tf.Tensor) -> tf.Tensor:
        """One tensor, so that the host reads once."""
        return tf.stack([*metrics, norm, tf.cast(learning_rate, tf.float32)])

    @tf.function(jit_compile=True)  # also on CPUs: it makes one pass over the weights of the dozen that the ops would
    def _apply(self, gradients: list[tf.Tensor], learning_rate: tf.Tensor) -> tf.Tensor:
        """Clips and applies the gradients; returns their norm before that."""
        gradients, norm = self._clip(gradients)
        self.optimizer.learning_rate.assign(learning_rate)
        self.optimizer.apply(gradients, list(self._agent.trainable_variables))
        return norm

    def _clip(self, gradients: list[tf.Tensor]) -> tuple[list[tf.Tensor], tf.Tensor]:
        """The gradients, clipped if they are to be, and their norm before that."""
        norm = tf.linalg.global_norm(gradients)
        if self._config.clip_norm:
            gradients, _ = tf.clip_by_global_norm(gradients, self._config.clip_norm, use_norm=norm)
        return gradients, norm
