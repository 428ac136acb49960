"""What happens to a batch before its first optimizer step: running statistics move, and targets are computed."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from seed_rl.agents.base import Agent
from seed_rl.learner.collectives import Link
from seed_rl.system import devices
from seed_rl.types import Unroll


class Preparation:
    """Passes an agent the moments of each batch, averaged over replicas and hosts, and asks it for targets."""

    def __init__(self, agent: Agent, strategy: tf.distribute.Strategy, link: Link):
        """
        Args:
          agent: agent built in the strategy's scope.
          strategy: strategy of this process's replicas.
          link: connection to other hosts, each with its part of the batch.
        """
        self._agent = agent
        self._strategy = strategy
        self._link = link
        # TPUStrategy compiles everything it runs.
        self._compiles = not isinstance(strategy, tf.distribute.TPUStrategy)
        self._specs: Any = None
        """Nest of `tf.TensorSpec` of the moments; known once they have been traced."""
        self._has_moments, self._is_first = True, True
        self._compiled_moments = tf.function(self._moments, autograph=False)
        self._compiled_move = tf.function(self._move, autograph=False)
        self._compiled_targets = tf.function(self._targets, autograph=False)

    def __call__(self, unroll: Unroll, sequences: int, is_new: bool) -> Unroll:
        """Update the statistics from a batch if its moments are finite, then return it with the agent's targets.

        Args:
          unroll: batch of the update.
          sequences: number of sequences of this process.
          is_new: whether no optimizer step has been taken; then the first batch counts twice, see
            `RunningMoments.update`.
        """
        steps = tf.constant(self._agent.unroll_length * sequences * self._link.hosts.count, tf.float32)
        for _ in range(2 if self._is_first and is_new else 1):
            if self._has_moments:
                moments = self._compiled_moments(unroll)
                self._has_moments = moments.shape[0] > 0
            if self._has_moments:
                self._compiled_move(moments, steps)
        self._is_first = False
        return self.with_targets(unroll)

    def with_targets(self, unroll: Unroll) -> Unroll:
        """Return a batch with the agent's targets."""
        return unroll._replace(targets=self._compiled_targets(unroll))

    def _targets(self, unroll: Unroll) -> Any:
        compiled = devices.has_accelerator() and self._compiles
        return self._strategy.run(tf.function(self._agent.targets, jit_compile=compiled, autograph=False), (unroll,))

    def _moments(self, unroll: Unroll) -> tf.Tensor:
        """Return the moments of a batch as one float32 tensor; [0] for an agent without statistics."""

        def flat(unroll: Unroll) -> tf.Tensor:
            moments = self._agent.moments(unroll)
            self._specs = tf.nest.map_structure(lambda tensor: tf.TensorSpec(tensor.shape), moments)
            return tf.concat([tf.zeros([0]), *(tf.reshape(each, [-1]) for each in tf.nest.flatten(moments))], axis=0)

        # Also on CPUs: one pass over the observations instead of several.
        flat = tf.function(flat, jit_compile=self._compiles, autograph=False)

        def on_replica(unroll: Unroll) -> tf.Tensor:
            return tf.distribute.get_replica_context().all_reduce("mean", flat(unroll))

        if self._strategy.num_replicas_in_sync == 1:
            moments = flat(unroll)
        else:
            moments = self._strategy.experimental_local_results(self._strategy.run(on_replica, (unroll,)))[0]
        return self._link.mean(moments) if moments.shape[0] else moments

    def _move(self, moments: tf.Tensor, steps: tf.Tensor) -> None:
        specs = tf.nest.flatten(self._specs)
        parts = tf.split(moments, [spec.shape.num_elements() for spec in specs])
        shaped = [tf.reshape(part, spec.shape) for part, spec in zip(parts, specs, strict=True)]

        def move() -> tf.Tensor:
            self._agent.update_statistics(tf.nest.pack_sequence_as(self._specs, shaped), steps)
            return tf.constant(True)

        tf.cond(tf.reduce_all(tf.math.is_finite(moments)), move, lambda: tf.constant(False))
