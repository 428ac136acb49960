"""One learner update: one or several optimizer steps from a batch of unrolls."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from seed_rl import devices
from seed_rl.agents.base import Agent
from seed_rl.learner.group_optimizers import GroupOptimizers
from seed_rl.learner.hosts.link import NO_OTHERS, Link
from seed_rl.learner.minibatches import draw, in_order
from seed_rl.learner.packing import Packing
from seed_rl.learner.statistics import Statistics
from seed_rl.optimizers import Optimizer
from seed_rl.types import Unroll


class Update(NamedTuple):
    """The outcome of an update."""

    metrics: dict[str, float]
    """The agent's metrics, `gradient_norm` (before clipping), `gradient_to_clip` (its ratio to `clip_norm`, where that
    is set) and `learning_rate`; of a second and further group of variables these are prefixed with its name.
    Means over optimizer steps, maxima where the agent says so."""
    priorities: np.ndarray
    """float32 [B] of the batch's sequences; empty if the agent gives none."""
    optimizer_steps: int
    """At most passes x minibatches: the agent may end an update before any step, and some may be left out."""
    left_out: int
    """Further optimizer steps, which were left out because a gradient was not finite; `metrics` are of the others."""


class _Outcome(NamedTuple):
    """Results of differentiation that are averaged over replicas and hosts."""

    gradients: dict[str, list[tf.Tensor]]
    """Of each group."""
    means: tf.Tensor
    """Metrics, float32 [N]."""
    maxima: tf.Tensor
    """Metrics, float32 [M]: their maxima over replicas and hosts."""


class TrainStep:
    """Differentiates the losses of an agent and applies the gradients: one compiled function, or two with other hosts.

    Each replica of a strategy, on each of several hosts, has its part of the batch; gradients and metrics are averaged
    over them before the gradients are clipped, so that an update is the same for any number of replicas. An optimizer
    step whose gradients are not finite is left out: weights and optimizers stay as they were. The agent's running
    statistics move once, before the first step.
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
          agent: the agent to update; made in the strategy's scope.
          optimizer: settings, which each of the agent's groups of variables may change.
          strategy: of the replicas of this process; None: a single device.
          passes: over each batch, at most; `Agent.learned_enough` may end them.
          minibatches: optimizer steps per pass, each from an equal part of the batch.
          link: to other hosts, which make the same updates from parts of the batch of their own.
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
        self._packing = Packing(link.hosts)
        self._mean_names: list[str] = []
        self._max_names: list[str] = []
        options = {"jit_compile": self._replicas == 1 and devices.has_accelerator(), "autograph": False}
        self._compiled = tf.function(self._step, **options)
        self._compiled_pass = tf.function(self._pass, autograph=False)
        self._compiled_packed = tf.function(self._packed, **options)
        self._compiled_finish = tf.function(self._finish_packed, **options)

    @property
    def variables(self) -> dict[str, Any]:
        """The state of the optimizers, for checkpoints: Keras variables by a name that is the same in every process."""
        return self._optimizers.variables

    def __call__(
        self, unroll: Unroll, progress: float, importance_weights: np.ndarray, seed: int | Sequence[int] = 0
    ) -> Update:
        """Updates the weights from a batch of unrolls.

        Args:
          unroll: fields [L, B, ...], or the parts [L, B / replicas, ...] of each replica.
          progress: the share of the run's frames before this batch, in [0, 1].
          importance_weights: float32 [B] of this process's sequences.
          seed: of minibatches and losses, different at each update: entropy for NumPy's generator.
        """
        weights, rates = tf.constant(importance_weights, tf.float32), self._optimizers.rates(progress)
        generator = np.random.default_rng(seed)
        self._statistics.observe(
            unroll, len(importance_weights), 2 if self._is_first and self._optimizers.are_new else 1
        )
        self._is_first = False
        passed, taken, left_out, ended = [], 0, 0, False
        for _ in range(self._passes):
            columns = draw(self._minibatches, len(importance_weights) // self._replicas, generator)
            replicas, hosts = self._replicas, self._link.hosts
            seeds = generator.integers(2**31 - replicas * hosts.count, size=(len(columns), 2), dtype=np.int32)
            seeds += replicas * hosts.index  # each replica adds its number
            run = self._compiled_pass if hosts.count == 1 else self._pass_with_others
            steps = run(unroll, weights, rates, tf.constant(columns), tf.constant(seeds))
            means, maxima, priorities, missing, ended = self._read(steps.numpy())
            taken, left_out = taken + len(steps) - missing - ended, left_out + missing
            passed += [(means, maxima)] if means else []
            if ended:
                break
        priorities = in_order(columns, priorities, self._replicas) if len(steps) == len(columns) else np.zeros(0)
        if not passed:
            return Update({}, priorities, taken, left_out)
        metrics = {name: float(np.mean([means[name] for means, _ in passed])) for name in self._mean_names}
        metrics |= {name: float(np.max([maxima[name] for _, maxima in passed])) for name in self._max_names}
        for index, (name, settings) in enumerate(self._optimizers.settings.items()):
            if settings.clip_norm:
                prefix = f"{name}/" if index else ""
                metrics[f"{prefix}gradient_to_clip"] = metrics[f"{prefix}gradient_norm"] / settings.clip_norm
        return Update(metrics, priorities, taken, left_out)

    def program(self, unroll: Unroll, importance_weights: np.ndarray) -> tuple[Any, tuple[Any, ...]]:
        """The `tf.function` of an optimizer step, and arguments for a minibatch."""
        columns = tf.range(len(importance_weights) // self._minibatches)
        weights, rates = tf.constant(importance_weights), self._optimizers.rates(0.0)
        return self._compiled, (unroll, weights, rates, columns, tf.zeros(2, tf.int32))

    def _pass(
        self, unroll: Unroll, weights: tf.Tensor, rates: tf.Tensor, columns: tf.Tensor, seeds: tf.Tensor
    ) -> tf.Tensor:
        """The optimizer steps of a pass, one after the other, until one ends it: rows of `_step`.

        Columns and seeds have one row for each.
        """
        step = functools.partial(self._compiled, unroll, weights, rates)
        count = columns.shape[0]
        if count == 1:
            return step(columns[0], seeds[0])[None]

        def one(at: tf.Tensor, _: tf.Tensor, rows: tf.TensorArray) -> tuple[tf.Tensor, tf.Tensor, tf.TensorArray]:
            row = step(columns[at], seeds[at])
            return at + 1, row[0] > 0.0, rows.write(at, row)

        rows = tf.TensorArray(tf.float32, count, infer_shape=False)
        at, _, rows = tf.while_loop(
            lambda at, ended, _: (at < count) & ~ended, one, (0, tf.constant(False), rows), parallel_iterations=1
        )
        return rows.gather(tf.range(at))

    def _pass_with_others(
        self, unroll: Unroll, weights: tf.Tensor, rates: tf.Tensor, columns: tf.Tensor, seeds: tf.Tensor
    ) -> tf.Tensor:
        """As `_pass`, with a sum over hosts in the middle of each step."""
        rows = []
        for row in zip(columns, seeds, strict=True):
            packed, priorities = self._compiled_packed(unroll, weights, *row)
            values = self._compiled_finish(tf.constant(self._link.sum(packed.numpy())), rates)
            rows.append(tf.concat([values, priorities], axis=0))
            if values[0] > 0.0:
                break
        return tf.stack(rows)

    def _read(self, values: np.ndarray) -> tuple[dict[str, float], dict[str, float], np.ndarray, int, bool]:
        """From rows of `_step`: means and maxima by name of the metrics of a pass, its priorities [steps, any], the
        number of steps left out, and whether the last one ended the update."""
        ends = np.cumsum([1, len(self._mean_names), len(self._max_names)])
        ended, means, maxima, priorities = np.split(values, ends, axis=1)
        norms = means[:, [name.endswith("gradient_norm") for name in self._mean_names]]
        made = np.isfinite(norms).all(axis=1)
        if not made.any():
            return {}, {}, priorities, len(made), False
        return (
            dict(zip(self._mean_names, means[made].mean(axis=0).tolist(), strict=True)),
            dict(zip(self._max_names, maxima[made].max(axis=0).tolist(), strict=True)),
            priorities,
            int(np.count_nonzero(~made)),
            bool(ended[-1] > 0),
        )

    def _step(
        self, unroll: Unroll, weights: tf.Tensor, rates: tf.Tensor, columns: tf.Tensor, seed: tf.Tensor
    ) -> tf.Tensor:
        """Whether the update ends, means, maxima and priorities as one float32 tensor, so that the host reads once."""
        outcome, norms, priorities = self._outcome(unroll, weights, columns, seed)
        return tf.concat([self._finish(outcome, norms, rates), *self._local(priorities)], axis=0)

    def _packed(
        self, unroll: Unroll, weights: tf.Tensor, columns: tf.Tensor, seed: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """This host's term of the sum over hosts, and its priorities."""
        outcome, _, priorities = self._outcome(unroll, weights, columns, seed)
        packed = self._strategy.run(lambda own: self._packing.pack(own[:-1], own.maxima), (outcome,))
        return self._local(packed)[0], tf.concat(self._local(priorities), axis=0)

    def _finish_packed(self, total: tf.Tensor, rates: tf.Tensor) -> tf.Tensor:
        """Applies the sum over hosts; returns as `_finish` does."""

        def on_replica(total: tf.Tensor) -> tuple[_Outcome, tf.Tensor]:
            (gradients, means), maxima = self._packing.unpack(total)
            return _Outcome(gradients, means, maxima), self._optimizers.norms(gradients)

        outcome, norms = self._strategy.run(on_replica, (total,))
        return self._finish(outcome, norms, rates)

    def _outcome(
        self, unroll: Unroll, weights: tf.Tensor, columns: tf.Tensor, seed: tf.Tensor
    ) -> tuple[_Outcome, tf.Tensor, tf.Tensor]:
        """The outcome and the norms of its gradients, equal on all replicas, and the priorities of each."""
        # Several replicas are compiled here, one by one; TPUStrategy compiles everything it runs.
        compiled = devices.has_accelerator() and not isinstance(self._strategy, tf.distribute.TPUStrategy)
        differentiate = tf.function(self._differentiate, jit_compile=compiled, autograph=False)

        def on_replica(unroll: Unroll) -> tuple[_Outcome, tf.Tensor, tf.Tensor]:
            context = tf.distribute.get_replica_context()
            replica = context.replica_id_in_sync_group
            own_weights = tf.reshape(weights, [self._replicas, -1])[replica]
            own, priorities = differentiate(unroll, own_weights, columns, seed + replica)
            gradients, means = context.all_reduce("mean", own[:-1])
            maxima = context.all_gather(own.maxima[None], axis=0) if self._max_names else own.maxima[None]
            outcome = _Outcome(gradients, means, tf.reduce_max(maxima, axis=0))
            return outcome, self._optimizers.norms(gradients), priorities

        if self._replicas > 1:
            return self._strategy.run(on_replica, (unroll,))
        outcome, priorities = self._differentiate(unroll, weights, columns, seed)
        return outcome, self._optimizers.norms(outcome.gradients), priorities

    def _finish(self, outcome: _Outcome, norms: tf.Tensor, rates: tf.Tensor) -> tf.Tensor:
        """Applies an outcome, if it is finite and the agent has not learned enough.

        Returns:
          Whether it has, means, norms, rates and maxima.
        """
        first, norms = tf.nest.map_structure(lambda each: self._local(each)[0], (outcome, norms))
        means = dict(zip(self._mean_names, tf.unstack(first.means), strict=False))
        ends = tf.convert_to_tensor(self._agent.learned_enough(means))

        def apply() -> tf.Tensor:
            self._optimizers.apply(outcome.gradients, norms, rates)
            return tf.constant(True)

        # Outside of the compiled part, where it would copy the weights. Norms are equal on all replicas of all hosts.
        tf.cond(tf.reduce_all(tf.math.is_finite(norms)) & ~ends, apply, lambda: tf.constant(False))
        return tf.concat([tf.cast(ends, tf.float32)[None], first.means, norms, rates, first.maxima], axis=0)

    def _local(self, value: Any) -> tuple[tf.Tensor, ...]:
        """The tensors of this process's replicas."""
        return self._strategy.experimental_local_results(value)

    def _differentiate(
        self, unroll: Unroll, weights: tf.Tensor, columns: tf.Tensor, seed: tf.Tensor
    ) -> tuple[_Outcome, tf.Tensor]:
        """The outcome of some sequences, and their priorities."""
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
            # Those of embeddings are a row for each look-up, which neither norms nor Keras's optimizers add up.
            gradients[name] = [tf.convert_to_tensor(gradient) for gradient in found]
        prefixes = ["", *(f"{name}/" for name in list(variables)[1:])]
        extra = [f"{prefix}{name}" for name in ("gradient_norm", "learning_rate") for prefix in prefixes]
        self._mean_names, self._max_names = [*output.metrics, *extra], list(output.maxima)
        priorities = tf.zeros([0]) if isinstance(output.priorities, tuple) else output.priorities
        outcome = _Outcome(gradients, _stacked(output.metrics), _stacked(output.maxima))
        return outcome, priorities


def _stacked(metrics: Mapping[str, tf.Tensor]) -> tf.Tensor:
    return tf.stack([tf.cast(value, tf.float32) for value in metrics.values()]) if metrics else tf.zeros([0])
