"""One learner update: one or several optimizer steps from a batch of unrolls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from seed_rl.agents.base import Agent
from seed_rl.devices import has_accelerator
from seed_rl.learner.ending import Diverged
from seed_rl.optimizers import Optimizer
from seed_rl.types import Unroll


class Update(NamedTuple):
    """The outcome of an update."""

    metrics: dict[str, float]
    """The agent's metrics, `gradient_norm` (before clipping) and `learning_rate`; of a second and further group of
    variables these two are prefixed with its name. Means over optimizer steps, maxima where the agent says so."""
    priorities: np.ndarray
    """float32 [B] of the batch's sequences; empty if the agent gives none."""


class TrainStep:
    """Differentiates the losses of an agent and applies the gradients, as one compiled function.

    Under a strategy of several replicas each has its part of the batch; gradients and metrics are averaged over them
    before the gradients are clipped, so that an update is the same for any number of replicas.
    """

    def __init__(
        self,
        agent: Agent,
        optimizer: Optimizer,
        strategy: tf.distribute.Strategy | None = None,
        local_replicas: int = 1,
        passes: int = 1,
        minibatches: int = 1,
    ):
        """
        Args:
          agent: the agent to update; made in the strategy's scope.
          optimizer: settings, which each of the agent's groups of variables may change.
          strategy: of the replicas; None: a single device.
          local_replicas: those of this process.
          passes: over each batch.
          minibatches: optimizer steps per pass, each from an equal part of the batch.
        """
        self._strategy = strategy or tf.distribute.get_strategy()
        self._agent = agent
        self._groups = agent.groups
        self._settings = {name: group.optimizer(optimizer) for name, group in self._groups.items()}
        with self._strategy.scope():
            self._optimizers = {name: settings.build() for name, settings in self._settings.items()}
            for name, group in self._groups.items():
                self._optimizers[name].build(list(group.variables))
        self._replicas = self._strategy.num_replicas_in_sync
        self._local_replicas = local_replicas
        self._passes = passes
        self._minibatches = minibatches
        self._mean_names: list[str] = []
        self._max_names: list[str] = []
        if self._replicas == 1:
            self._compiled = tf.function(self._step, jit_compile=has_accelerator(), autograph=False)
        else:
            self._compiled = tf.function(self._step_on_replicas, autograph=False)

    @property
    def variables(self) -> dict[str, Any]:
        """The state of the optimizers, for checkpoints: Keras variables by a name that is the same in every process."""
        return {
            f"{group}/{index:03d}/{variable.name}": variable
            for group, optimizer in self._optimizers.items()
            for index, variable in enumerate(optimizer.variables)
        }

    def __call__(self, unroll: Unroll, progress: float, importance_weights: np.ndarray, seed: int = 0) -> Update:
        """Updates the weights from a batch of unrolls.

        Args:
          unroll: fields [L, B, ...], or the parts [L, B / replicas, ...] of each replica of this process.
          progress: the share of the run's frames before this batch, in [0, 1].
          importance_weights: float32 [B] of this process's sequences.
          seed: of minibatches and losses; different at each update.

        Raises:
          Diverged: a gradient is not finite.
        """
        weights = tf.constant(importance_weights, tf.float32)
        rates = tf.constant([settings.learning_rate_at(progress) for settings in self._settings.values()], tf.float32)
        generator = np.random.default_rng(seed)
        columns = self._columns(len(importance_weights) // self._local_replicas, generator)
        seeds = generator.integers(2**31 - self._replicas, size=(len(columns), 2), dtype=np.int32)
        steps = [
            self._compiled(unroll, weights, rates, tf.constant(part), tf.constant(own))
            for part, own in zip(columns, seeds, strict=True)
        ]
        values = np.stack([step.numpy() for step in steps])
        ends = np.cumsum([len(self._mean_names), len(self._max_names)])
        means, maxima, priorities = np.split(values, ends, axis=1)
        scalars = [*means.mean(axis=0).tolist(), *maxima.max(axis=0, initial=-np.inf).tolist()]
        metrics = dict(zip([*self._mean_names, *self._max_names], scalars, strict=True))
        if not all(np.isfinite(value) for name, value in metrics.items() if name.endswith("gradient_norm")):
            raise Diverged("the gradient is no longer finite")
        return Update(metrics, self._in_order(columns, priorities))

    def _columns(self, batch_size: int, generator: np.random.Generator) -> list[np.ndarray]:
        """The sequences of each optimizer step, int32 [B / minibatches], among those of a replica."""
        if self._minibatches == 1:
            return [np.arange(batch_size, dtype=np.int32)] * self._passes
        orders = [generator.permutation(batch_size).astype(np.int32) for _ in range(self._passes)]
        return [part for order in orders for part in np.split(order, self._minibatches)]

    def _in_order(self, columns: Sequence[np.ndarray], priorities: np.ndarray) -> np.ndarray:
        """The priorities that the last pass gave, [steps, any], in the order of the batch."""
        if not priorities.size:
            return priorities.ravel()
        last = slice(-self._minibatches, None)
        parts = [step.reshape(self._local_replicas, -1) for step in priorities[last]]
        return np.concatenate(parts, axis=1)[:, np.argsort(np.concatenate(columns[last]))].ravel()

    def _step(
        self, unroll: Unroll, weights: tf.Tensor, rates: tf.Tensor, columns: tf.Tensor, seed: tf.Tensor
    ) -> tf.Tensor:
        """Means, maxima and priorities as one float32 tensor, so that the host reads once."""
        gradients, means, maxima, priorities = self._differentiate(unroll, weights, columns, seed)
        norms = self._apply(gradients, rates)
        return tf.concat([means, norms, rates, maxima, priorities], axis=0)

    def _step_on_replicas(
        self, unroll: Unroll, weights: tf.Tensor, rates: tf.Tensor, columns: tf.Tensor, seed: tf.Tensor
    ) -> tf.Tensor:
        replicas, local = self._replicas, self._local_replicas
        # TPUStrategy compiles everything it runs.
        compiled = has_accelerator() and not isinstance(self._strategy, tf.distribute.TPUStrategy)
        differentiate = tf.function(self._differentiate, jit_compile=compiled, autograph=False)

        def on_replica(unroll: Unroll) -> tuple[tf.Tensor, tf.Tensor]:
            context = tf.distribute.get_replica_context()
            replica = context.replica_id_in_sync_group
            own_weights = tf.reshape(weights, [local, -1])[replica % local]
            gradients, means, maxima, priorities = differentiate(unroll, own_weights, columns, seed + replica)
            gradients = context.all_reduce("mean", gradients)
            means = tf.reduce_mean(context.all_gather(means[None], axis=0), axis=0)
            if self._max_names:
                maxima = tf.reduce_max(context.all_gather(maxima[None], axis=0), axis=0)
            norms = []
            for name, own in gradients.items():
                own, norm = self._clip(name, own)
                # The optimizer sums over replicas.
                self._optimizers[name].apply([g / replicas for g in own], list(self._groups[name].variables))
                norms.append(norm)
            return tf.concat([means, tf.stack(norms), rates, maxima], axis=0), priorities

        self._set_learning_rates(rates)
        values, priorities = (
            self._strategy.experimental_local_results(each) for each in self._strategy.run(on_replica, (unroll,))
        )
        return tf.concat([values[0], *priorities], axis=0)

    def _differentiate(
        self, unroll: Unroll, weights: tf.Tensor, columns: tf.Tensor, seed: tf.Tensor
    ) -> tuple[dict[str, list[tf.Tensor]], tf.Tensor, tf.Tensor, tf.Tensor]:
        """The gradients of each group, the mean and the maximum metrics, and the priorities, from some sequences."""
        if self._minibatches > 1:
            state = tf.nest.map_structure(lambda t: tf.gather(t, columns, axis=0), unroll.initial_state)
            steps = unroll._replace(initial_state=())
            unroll = tf.nest.map_structure(lambda t: tf.gather(t, columns, axis=1), steps)._replace(initial_state=state)
            weights = tf.gather(weights, columns)
        variables = {name: [variable.value for variable in group.variables] for name, group in self._groups.items()}
        with tf.GradientTape(persistent=len(variables) > 1) as tape:
            output = self._agent.loss(unroll, weights, seed)
        gradients = {}
        for name, own in variables.items():
            found = tape.gradient(output.losses[name], own, unconnected_gradients=tf.UnconnectedGradients.ZERO)
            # Those of embeddings are a row for each look-up, which neither norms nor Keras's optimizers add up.
            gradients[name] = [tf.convert_to_tensor(gradient) for gradient in found]
        prefixes = ["", *(f"{name}/" for name in list(variables)[1:])]
        extra = [f"{prefix}{name}" for name in ("gradient_norm", "learning_rate") for prefix in prefixes]
        self._mean_names, self._max_names = [*output.metrics, *extra], list(output.maxima)
        priorities = tf.zeros([0]) if isinstance(output.priorities, tuple) else output.priorities
        return gradients, _stacked(output.metrics), _stacked(output.maxima), priorities

    @tf.function(jit_compile=True, autograph=False)  # also on CPUs: one pass over the weights instead of a dozen
    def _apply(self, gradients: Mapping[str, list[tf.Tensor]], rates: tf.Tensor) -> tf.Tensor:
        """Clips and applies the gradients; returns the norm of each group before clipping."""
        self._set_learning_rates(rates)
        norms = []
        for name, own in gradients.items():
            own, norm = self._clip(name, own)
            self._optimizers[name].apply(own, list(self._groups[name].variables))
            norms.append(norm)
        return tf.stack(norms)

    def _set_learning_rates(self, rates: tf.Tensor) -> None:
        for optimizer, rate in zip(self._optimizers.values(), tf.unstack(rates), strict=True):
            optimizer.learning_rate.assign(rate)

    def _clip(self, name: str, gradients: list[tf.Tensor]) -> tuple[list[tf.Tensor], tf.Tensor]:
        """The gradients of a group, clipped if its settings say so, and their norm before that."""
        norm = tf.linalg.global_norm(gradients)
        limit = self._settings[name].clip_norm
        if limit:
            gradients, _ = tf.clip_by_global_norm(gradients, limit, use_norm=norm)
        return gradients, norm


def _stacked(metrics: Mapping[str, tf.Tensor]) -> tf.Tensor:
    return tf.stack([tf.cast(value, tf.float32) for value in metrics.values()]) if metrics else tf.zeros([0])
