"""Updates an agent's running statistics, such as those of observations, from each batch before it is learned from."""

from typing import Any

import tensorflow as tf

from seed_rl.agents.base import Agent
from seed_rl.learner.gradients import Reduction, compiled
from seed_rl.system.programs import Program
from seed_rl.types import Unroll


class RunningStatistics:
    """Passes an agent the moments of each batch, averaged over replicas and learners."""

    def __init__(self, agent: Agent, strategy: tf.distribute.Strategy, reduction: Reduction | None):
        """The agent was built in the scope of the `strategy`, of this process's replicas."""
        self._agent, self._strategy, self._reduction = agent, strategy, reduction
        self._has_moments, self._is_first = True, True
        self.moments = Program(self._moments)
        """Computes the moments of a batch, a nest without tensors for an agent without statistics."""
        self._compiled_update = Program(self._update)

    def update(self, unroll: Unroll, sequences: int, is_new: bool) -> None:
        """Update the statistics from a batch of this process's `sequences`, if its moments are finite.

        The first batch of a new run counts twice, see `RunningMoments.update`.
        """
        learners = self._reduction.learners if self._reduction else 1
        steps = tf.constant(self._agent.unroll_length * sequences * learners, tf.float32)
        for _ in range(2 if self._is_first and is_new else 1):
            if self._has_moments:
                moments = self.moments(unroll)
                self._has_moments = bool(tf.nest.flatten(moments))
            if self._has_moments:
                self._compiled_update(moments, steps)
        self._is_first = False

    def _moments(self, unroll: Unroll) -> Any:
        # On CPUs, too, one pass over the observations instead of several.
        own_moments = compiled(self._agent.moments, self._strategy, on_cpus=True)

        def on_replica(unroll: Unroll) -> Any:
            moments = own_moments(unroll)
            if not tf.nest.flatten(moments) or self._strategy.num_replicas_in_sync == 1:
                return moments
            return tf.distribute.get_replica_context().all_reduce("mean", moments)

        local = self._strategy.experimental_local_results
        moments = self._strategy.run(on_replica, (unroll,))
        moments = tf.nest.map_structure(lambda moment: local(moment)[0], moments)
        return self._reduction.mean(moments) if self._reduction else moments

    def _update(self, moments: Any, steps: tf.Tensor) -> None:
        def update() -> tf.Tensor:
            self._agent.update_statistics(moments, steps)
            return tf.constant(True)

        finite = [tf.reduce_all(tf.math.is_finite(moment)) for moment in tf.nest.flatten(moments)]
        tf.cond(tf.reduce_all(finite), update, lambda: tf.constant(False))
