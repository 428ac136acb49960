"""One learner update: one or several optimizer steps from a batch of unrolls."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from seed_rl.agents.base import Agent
from seed_rl.experiment.optimizer import Optimizer
from seed_rl.learner.collectives import NO_OTHERS, Link
from seed_rl.learner.group_optimizers import GroupOptimizers
from seed_rl.learner.minibatches import draw, in_order
from seed_rl.learner.statistics import Statistics
from seed_rl.system import devices
from seed_rl.types import Unroll


class Update(NamedTuple):
    """The outcome of an update."""

    metrics: dict[str, float]
    """The agent's metrics, `gradient_norm` (before clipping), `gradient_to_clip` (its ratio to `clip_norm`, where that
    is set) and `learning_rate`; for the second and later groups of variables with the group's name as a prefix.
    Means over the optimizer steps that were applied, or over all if none was; maxima where the agent says so."""
    priorities: np.ndarray
    """Priorities of this process's sequences, float32 [B]; empty if the agent gives none."""
    optimizer_steps: int
    """Number of steps applied: passes x minibatches, fewer if the agent ends an update early or steps are skipped."""
    left_out: int
    """Number of steps skipped because of NaN or Inf gradients; `metrics` cover the others."""


class _Outcome(NamedTuple):
    """Results for one optimizer step, computed by each device and host from its own sequences."""

    gradients: dict[str, list[tf.Tensor]]
    """Gradients of each group, whose means over devices and hosts are applied."""
    means: dict[str, tf.Tensor]
    """Metrics whose mean is reported."""
    maxima: dict[str, tf.Tensor]
    """Metrics whose maximum is reported."""


class _Step(NamedTuple):
    """An optimizer step, or several, with one more leading axis in each field."""

    finite: tf.Tensor
    """Whether all gradients are finite, bool []; otherwise the step is skipped."""
    ended: tf.Tensor
    """Whether the agent had learned enough before this step, bool []; then this step and later ones are not applied."""
    means: dict[str, tf.Tensor]
    """Metrics by name, float32 []."""
    maxima: dict[str, tf.Tensor]
    """Metrics by name, float32 []; their maximum over steps is reported."""
    priorities: tf.Tensor
    """float32 [R n]: of n sequences of each replica; [0] if the agent gives none."""


class TrainStep:
    """Differentiates the losses of an agent and applies the gradients, one compiled call for each pass over a batch.

    Each replica of a strategy, on each of several hosts, has its part of the batch; gradients and metrics are averaged
    over them before the gradients are clipped, so that an update is the same for any number of replicas. An optimizer
    step with NaN or Inf gradients is skipped: weights and optimizer state stay as they were. The agent's running
    statistics are updated once, before the first step.
    """

    def __init__(
        self,
        agent: Agent,
        optimizer: Optimizer,
        strategy: tf.distribute.Strategy | None = None,
        passes: int = 1,
        minibatches: int = 1,
        link: Link = NO_OTHERS,
    ):
        """
        Args:
          agent: agent to update, built in the strategy's scope.
          optimizer: default settings, which each of the agent's groups of variables may change.
          strategy: strategy of this process's replicas; None for a single device.
          passes: maximum number of passes over each batch; `Agent.learned_enough` may end them early.
          minibatches: number of optimizer steps per pass, each from an equal part of the batch.
          link: connection to other hosts, which apply the same updates, each from its part of the batch.
        """
        self._strategy = strategy or tf.distribute.get_strategy()
        self._agent = agent
        self._optimizers = GroupOptimizers(agent, optimizer, self._strategy)
        self._statistics = Statistics(agent, self._strategy, link)
        self._is_first = True  # of this start of the run
        self._replicas = self._strategy.num_replicas_in_sync
        self._passes = passes
        self._minibatches = minibatches
        self._link = link
        # With several devices or hosts, XLA compiles only what each computes alone.
        whole = self._replicas == 1 and link.hosts.count == 1 and devices.has_accelerator()
        self._compiled = tf.function(self._step, jit_compile=whole, autograph=False)
        self._compiled_pass = tf.function(self._pass, autograph=False)

    @property
    def variables(self) -> dict[str, Any]:
        """Optimizer state for checkpoints: Keras variables by names that are the same in every process."""
        return self._optimizers.variables

    def __call__(
        self, unroll: Unroll, progress: float, importance_weights: np.ndarray, seed: int | Sequence[int] = 0
    ) -> Update:
        """Update the weights from a batch of unrolls.

        Args:
          unroll: fields [L, B, ...], or the parts [L, B / replicas, ...] of each replica.
          progress: share of the run's frames before this batch, in [0, 1].
          importance_weights: weights of this process's sequences, float32 [B].
          seed: seed of minibatches and losses, different for each update; entropy for NumPy's generator.
        """
        weights, rates = tf.constant(importance_weights, tf.float32), self._optimizers.rates(progress)
        generator, hosts = np.random.default_rng(seed), self._link.hosts
        times = 2 if self._is_first and self._optimizers.are_new else 1
        self._statistics.observe(unroll, len(importance_weights), times)
        self._is_first = False
        passes: list[_Step] = []
        while len(passes) < self._passes and not (passes and passes[-1].ended[-1]):
            columns = draw(self._minibatches, len(importance_weights) // self._replicas, generator)
            seeds = generator.integers(2**31 - self._replicas * hosts.count, size=(len(columns), 2), dtype=np.int32)
            seeds += self._replicas * hosts.index  # each replica adds its number
            steps = self._compiled_pass(unroll, weights, rates, tf.constant(columns), tf.constant(seeds))
            passes.append(tf.nest.map_structure(lambda tensor: tensor.numpy(), steps))
        last = passes[-1].priorities
        priorities = in_order(columns, last, self._replicas) if len(last) == len(columns) else np.zeros(0)
        return self._summary(tf.nest.map_structure(lambda *arrays: np.concatenate(arrays), *passes), priorities)

    def _summary(self, steps: _Step, priorities: np.ndarray) -> Update:
        """Summarise all steps, NumPy arrays [steps, ...], and the priorities of the batch as an `Update`."""
        finite, metrics = steps.finite, {}
        made = finite & ~steps.ended
        told = made if made.any() else finite
        if told.any():
            metrics = {name: float(np.mean(values[told])) for name, values in steps.means.items()}
            metrics |= {name: float(np.max(values[told])) for name, values in steps.maxima.items()}
            for prefix, settings in self._optimizers.prefixed.items():
                if settings.clip_norm:
                    ratio = metrics[f"{prefix}gradient_norm"] / settings.clip_norm
                    metrics[f"{prefix}gradient_to_clip"] = ratio
        return Update(metrics, priorities, int(np.sum(made)), int(np.sum(~finite)))

    def program(self, unroll: Unroll, importance_weights: np.ndarray) -> tuple[Any, tuple[Any, ...]]:
        """Return the `tf.function` of an optimizer step, and arguments for a minibatch."""
        columns = tf.range(len(importance_weights) // self._minibatches)
        weights, rates = tf.constant(importance_weights), self._optimizers.rates(0.0)
        return self._compiled, (unroll, weights, rates, columns, tf.zeros(2, tf.int32))

    def _pass(
        self, unroll: Unroll, weights: tf.Tensor, rates: tf.Tensor, columns: tf.Tensor, seeds: tf.Tensor
    ) -> _Step:
        """Take the optimizer steps of a pass in order, one per row of columns and seeds, until one ends it."""
        step = functools.partial(self._compiled, unroll, weights, rates)
        count = columns.shape[0]
        if count == 1:
            return tf.nest.map_structure(lambda tensor: tensor[None], step(columns[0], seeds[0]))
        traced = self._compiled.get_concrete_function(unroll, weights, rates, columns[0], seeds[0]).structured_outputs
        rows = tf.nest.map_structure(lambda tensor: tf.TensorArray(tensor.dtype, count), traced)

        def one(at: tf.Tensor, _: tf.Tensor, rows: Any) -> tuple[tf.Tensor, tf.Tensor, Any]:
            made = step(columns[at], seeds[at])
            return at + 1, made.ended, tf.nest.map_structure(lambda row, value: row.write(at, value), rows, made)

        at, _, rows = tf.while_loop(
            lambda at, ended, _: (at < count) & ~ended, one, (0, tf.constant(False), rows), parallel_iterations=1
        )
        return tf.nest.map_structure(lambda row: row.gather(tf.range(at)), rows)

    def _step(self, unroll: Unroll, weights: tf.Tensor, rates: tf.Tensor, columns: tf.Tensor, seed: tf.Tensor) -> _Step:
        """Take an optimizer step from some sequences of each replica."""
        run = self._strategy.run
        outcome, priorities = run(self._on_replica, (unroll, weights, columns, seed))
        first = tf.nest.map_structure(lambda value: self._local(value)[0], outcome)
        if self._link.hosts.count > 1:
            gradients, means = self._link.mean((first.gradients, first.means))
            outcome = first = _Outcome(gradients, means, self._link.maximum(first.maxima))
        norms = run(self._optimizers.norms, (outcome.gradients,))
        ended = tf.convert_to_tensor(self._agent.learned_enough(first.means))
        norm = self._local(norms)[0]  # equal on all replicas of all hosts
        finite = tf.reduce_all(tf.math.is_finite(norm))

        def apply() -> tf.Tensor:
            self._optimizers.apply(outcome.gradients, norms, rates)
            return tf.constant(True)

        # On CPUs, outside the compiled parts, which would copy the weights.
        tf.cond(finite & ~ended, apply, lambda: tf.constant(False))
        own = dict(first.means)
        for index, prefix in enumerate(self._optimizers.prefixed):
            own |= {f"{prefix}gradient_norm": norm[index], f"{prefix}learning_rate": rates[index]}
        return _Step(finite, ended, own, first.maxima, tf.concat(self._local(priorities), axis=0))

    def _on_replica(
        self, unroll: Unroll, weights: tf.Tensor, columns: tf.Tensor, seed: tf.Tensor
    ) -> tuple[_Outcome, tf.Tensor]:
        """Return the outcome over all replicas, and the priorities of this replica's sequences."""
        context = tf.distribute.get_replica_context()
        replica = context.replica_id_in_sync_group
        # TPUStrategy compiles everything it runs.
        compiled = devices.has_accelerator() and not isinstance(self._strategy, tf.distribute.TPUStrategy)
        differentiate = tf.function(self._differentiate, jit_compile=compiled, autograph=False)
        own_weights = tf.reshape(weights, [self._replicas, -1])[replica]
        outcome, priorities = differentiate(unroll, own_weights, columns, seed + replica)
        if self._replicas == 1:
            return outcome, priorities
        stacked = tf.stack([*outcome.means.values()])  # a single tensor to reduce over devices
        gradients, means = context.all_reduce("mean", (outcome.gradients, stacked))
        maxima = outcome.maxima
        if maxima:
            found = tf.reduce_max(context.all_gather(tf.stack([*maxima.values()])[None], axis=0), axis=0)
            maxima = dict(zip(maxima, tf.unstack(found, len(maxima)), strict=True))
        return _Outcome(gradients, dict(zip(outcome.means, tf.unstack(means), strict=True)), maxima), priorities

    def _local(self, value: Any) -> tuple[tf.Tensor, ...]:
        """Return the tensors of this process's replicas."""
        return self._strategy.experimental_local_results(value)

    def _differentiate(
        self, unroll: Unroll, weights: tf.Tensor, columns: tf.Tensor, seed: tf.Tensor
    ) -> tuple[_Outcome, tf.Tensor]:
        """Return the outcome of some sequences, and their priorities."""
        if columns.shape[0] < weights.shape[0]:
            state = tf.nest.map_structure(lambda t: tf.gather(t, columns, axis=0), unroll.initial_state)
            steps = unroll._replace(initial_state=())
            unroll = tf.nest.map_structure(lambda t: tf.gather(t, columns, axis=1), steps)._replace(initial_state=state)
            weights = tf.gather(weights, columns)
        variables = {
            name: [variable.value for variable in group.variables] for name, group in self._agent.groups.items()
        }
        with tf.GradientTape(persistent=len(variables) > 1) as tape:
            output = self._agent.loss(unroll, weights, seed)
        gradients = {}
        for name, own in variables.items():
            found = tape.gradient(output.losses[name], own, unconnected_gradients=tf.UnconnectedGradients.ZERO)
            # Gradients of embeddings have a row per look-up, which neither norms nor Keras's optimizers add up.
            gradients[name] = [tf.convert_to_tensor(gradient) for gradient in found]
        means, maxima = (
            {name: tf.cast(value, tf.float32) for name, value in metrics.items()}
            for metrics in (output.metrics, output.maxima)
        )
        priorities = tf.zeros([0]) if isinstance(output.priorities, tuple) else output.priorities
        return _Outcome(gradients, means, maxima), priorities
