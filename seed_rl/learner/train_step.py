"""One learner update: one or several optimizer steps from a batch of unrolls."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from seed_rl.agents.base import Agent
from seed_rl.experiment.optimizer import Optimizer
from seed_rl.learner.gradients import Gradients, Measures, Reduction, compiled
from seed_rl.learner.group_optimizers import GroupOptimizers
from seed_rl.learner.running_statistics import RunningStatistics
from seed_rl.system import devices
from seed_rl.system.programs import Program
from seed_rl.types import Unroll


class StepResult(NamedTuple):
    """The result of an optimizer step; of several, with a leading axis in each field."""

    finite: tf.Tensor
    """Whether all gradients are finite, bool []; otherwise the step is skipped."""
    norms: tf.Tensor
    """Gradient norm of each group of variables, float32 [groups]."""
    measures: Measures


class UpdateResult(NamedTuple):
    """The result of an update, of one or several optimizer steps."""

    metrics: dict[str, float]
    """The agent's metrics, `gradient_norm` (before clipping), `gradient_to_clip` (its ratio to `clip_norm`, where that
    is set) and `learning_rate`; for the second and later groups of variables with the group's name as a prefix.
    Means, or maxima where the agent names them, over the optimizer steps that were applied; empty if none was."""
    priorities: np.ndarray
    """Priorities of this process's sequences, float32 [B]; empty if the agent gives none."""
    optimizer_steps: int
    """Number of steps applied: passes x minibatches, fewer if steps are skipped."""
    left_out: int
    """Number of steps skipped because of NaN or Inf gradients; `metrics` cover the others."""


class TrainStep:
    """Updates an agent's weights: in each pass over a batch, it takes a compiled optimizer step per minibatch.

    Gradients and metrics are averaged over replicas and learners before the gradients are clipped, so that an update is
    the same for any number of them if a loss is a mean over the batch. An optimizer step with a NaN or Inf gradient or
    rate is skipped: weights and optimizer state stay as they were.
    """

    def __init__(
        self,
        agent: Agent,
        optimizer: Optimizer,
        strategy: tf.distribute.Strategy | None = None,
        passes: int = 1,
        minibatches: int = 1,
        reduction: Reduction | None = None,
    ):
        """The agent was built in the scope of the `strategy`; with a `reduction`, learners share each batch."""
        self._strategy = strategy or tf.distribute.get_strategy()
        self._agent, self._passes, self._minibatches = agent, passes, minibatches
        self._replicas = self._strategy.num_replicas_in_sync
        self._optimizers = GroupOptimizers(agent, optimizer, self._strategy)
        self.variables = self._optimizers.variables
        """Optimizer state for checkpoints: Keras variables by names that are the same in every process."""
        self._statistics = RunningStatistics(agent, self._strategy, reduction)
        self._gradients = Gradients(agent, self._strategy, reduction)
        # With several devices or learners, XLA compiles only what each computes alone.
        whole = self._replicas == 1 and not reduction and devices.has_accelerator()
        self._compiled_step = Program(self._step, jit_compile=whole)
        self._compiled_targets = Program(self._targets)

    def __call__(
        self, unroll: Unroll, progress: float, importance_weights: np.ndarray, seed: int | Sequence[int] = 0
    ) -> UpdateResult:
        """Update the weights from a batch of unrolls [L, B, ...], or the parts [L, B / replicas, ...] of each replica.

        Args:
          progress: share of the run's frames before this batch, in [0, 1].
          importance_weights: weights of this process's sequences, float32 [B].
          seed: entropy for minibatches and losses, different for each update.
        """
        count, generator = len(importance_weights), np.random.default_rng(seed)
        self._statistics.update(unroll, count, self._optimizers.are_new)
        unroll = self._with_targets(unroll)
        weights, rates = tf.constant(importance_weights, tf.float32), self._optimizers.rates(progress)
        passes: list[StepResult] = []
        for _ in range(self._passes):
            minibatches, steps = self._pass_over(unroll, weights, rates, generator)
            passes.append(steps)
        priorities = _in_batch_order(minibatches, passes[-1].measures.priorities, self._replicas)
        return self._result(passes, priorities, rates.numpy())

    def warm_up(self, unroll: Unroll, count: int) -> None:
        """Compile the update by a pass over `count` unrolls whose steps are all skipped; see `__call__`."""
        rates = tf.fill(self._optimizers.rates(0.0).shape, math.nan)
        self._statistics.moments(unroll)
        self._pass_over(self._with_targets(unroll), tf.ones([count]), rates, np.random.default_rng(0))

    def program(self, unroll: Unroll, importance_weights: np.ndarray) -> tuple[Any, tuple[Any, ...]]:
        """Return the `tf.function` of an optimizer step, and arguments for a minibatch."""
        columns, seed = tf.range(len(importance_weights) // self._minibatches), tf.zeros(2, tf.int32)
        weights, rates = tf.constant(importance_weights), self._optimizers.rates(0.0)
        return self._compiled_step.function, (self._with_targets(unroll), weights, rates, columns, seed)

    def _result(self, passes: Sequence[StepResult], priorities: np.ndarray, rates: np.ndarray) -> UpdateResult:
        """Summarise the optimizer steps of an update, NumPy arrays [steps, ...] of each pass."""
        steps = tf.nest.map_structure(lambda *arrays: np.concatenate(arrays), *passes)
        applied, metrics = steps.finite, {}
        if applied.any():
            metrics = {name: float(np.mean(values[applied])) for name, values in steps.measures.means.items()}
            metrics |= {name: float(np.max(values[applied])) for name, values in steps.measures.maxima.items()}
            for group, (name, settings) in enumerate(self._optimizers.settings.items()):
                prefix, norm = f"{name}/" if group else "", float(np.mean(steps.norms[applied, group]))
                metrics |= {f"{prefix}gradient_norm": norm, f"{prefix}learning_rate": float(rates[group])}
                if settings.clip_norm:
                    metrics[f"{prefix}gradient_to_clip"] = norm / settings.clip_norm
        return UpdateResult(metrics, priorities, int(np.sum(applied)), int(np.sum(~applied)))

    def _with_targets(self, unroll: Unroll) -> Unroll:
        return unroll._replace(targets=self._compiled_targets(unroll))

    def _targets(self, unroll: Unroll) -> Any:
        return self._strategy.run(compiled(self._agent.targets, self._strategy), (unroll,))

    def _pass_over(
        self, unroll: Unroll, weights: tf.Tensor, rates: tf.Tensor, generator: np.random.Generator
    ) -> tuple[np.ndarray, StepResult]:
        """Take a pass of optimizer steps; return its minibatches, int32 [M, n], and the results, NumPy arrays."""
        columns = np.arange(weights.shape[0] // self._replicas, dtype=np.int32)  # of each replica
        if self._minibatches > 1:
            columns = generator.permutation(columns)
        minibatches = columns.reshape(self._minibatches, -1)
        # Each replica adds its number.
        seeds = generator.integers(2**31 - self._replicas, size=(self._minibatches, 2), dtype=np.int32)
        steps = [
            self._compiled_step(unroll, weights, rates, columns, seed)
            for columns, seed in zip(tf.constant(minibatches), tf.constant(seeds), strict=True)
        ]
        return minibatches, tf.nest.map_structure(lambda *tensors: np.stack(tensors), *steps)

    def _step(
        self, unroll: Unroll, weights: tf.Tensor, rates: tf.Tensor, columns: tf.Tensor, seed: tf.Tensor
    ) -> StepResult:
        """Differentiate the losses of a minibatch, some sequences of each replica, and apply finite gradients."""
        gradients, measures = self._gradients(unroll, weights, columns, seed)
        norms = self._strategy.run(self._optimizers.norms, (gradients,))
        norm = self._strategy.experimental_local_results(norms)[0]  # equal on all replicas of all learners
        finite = tf.reduce_all(tf.math.is_finite(norm)) & tf.reduce_all(tf.math.is_finite(rates))

        def apply() -> tf.Tensor:
            self._optimizers.apply(gradients, norms, rates)
            return tf.constant(True)

        # On CPUs, outside the compiled parts, which would copy the weights.
        tf.cond(finite, apply, lambda: tf.constant(False))
        return StepResult(finite, norm, measures)


def _in_batch_order(minibatches: np.ndarray, values: np.ndarray, replicas: int) -> np.ndarray:
    """Bring the values of M minibatches of R replicas, [M, R n], into the order of the batch, [M R n], if any."""
    if not values.size:
        return np.zeros(0, np.float32)
    of_replicas = np.concatenate([step.reshape(replicas, -1) for step in values], axis=1)
    return of_replicas[:, np.argsort(minibatches.ravel())].ravel()
