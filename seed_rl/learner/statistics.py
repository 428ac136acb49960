"""Updates an agent's running statistics from a batch on all training devices."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from seed_rl.agents.base import Agent
from seed_rl.learner.collectives import Link
from seed_rl.types import Unroll


class Statistics:
    """Passes an agent the moments of each batch, averaged over replicas and hosts."""

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
        self._specs: Any = None
        """Nest of `tf.TensorSpec` of the moments; known once they have been traced."""
        self._has_any = True
        self._compiled_moments = tf.function(self._moments, autograph=False)
        self._compiled_move = tf.function(self._move, autograph=False)

    def observe(self, unroll: Unroll, sequences: int, times: int) -> None:
        """Update the statistics from a batch if its moments are finite.

        Args:
          unroll: batch of the update.
          sequences: number of sequences of this process.
          times: number of times the batch counts; two at the start of a run, see `RunningMoments.update`.
        """
        steps = tf.constant(self._agent.unroll_length * sequences * self._link.hosts.count, tf.float32)
        for _ in range(times if self._has_any else 0):
            moments = self._compiled_moments(unroll)
            self._has_any = moments.shape[0] > 0
            if not self._has_any:
                return
            self._compiled_move(moments, steps)

    def _moments(self, unroll: Unroll) -> tf.Tensor:
        """Return the moments of a batch as one float32 tensor; [0] for an agent without statistics."""

        def flat(unroll: Unroll) -> tf.Tensor:
            moments = self._agent.moments(unroll)
            self._specs = tf.nest.map_structure(lambda tensor: tf.TensorSpec(tensor.shape), moments)
            return tf.concat([tf.zeros([0]), *(tf.reshape(each, [-1]) for each in tf.nest.flatten(moments))], axis=0)

        # Also on CPUs: one pass over the observations instead of several. TPUStrategy compiles everything it runs.
        compiled = not isinstance(self._strategy, tf.distribute.TPUStrategy)
        flat = tf.function(flat, jit_compile=compiled, autograph=False)

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
