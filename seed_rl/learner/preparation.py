"""What happens to a batch before its first optimizer step: running statistics move, and targets are computed."""

from typing import Any

import tensorflow as tf

from seed_rl.agents.base import Agent
from seed_rl.learner.peers import Peers
from seed_rl.system import devices
from seed_rl.types import Unroll


class Preparation:
    """Passes an agent the moments of each batch, averaged over replicas and peers, and asks it for targets."""

    def __init__(self, agent: Agent, strategy: tf.distribute.Strategy, peers: Peers):
        """The agent was built in the scope of the `strategy`, of this process's replicas."""
        self._agent = agent
        self._strategy = strategy
        self._peers = peers
        # TPUStrategy compiles everything it runs.
        self._compiles = not isinstance(strategy, tf.distribute.TPUStrategy)
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
        steps = tf.constant(self._agent.unroll_length * sequences * self._peers.count, tf.float32)
        for _ in range(2 if self._is_first and is_new else 1):
            if self._has_moments:
                moments = self._compiled_moments(unroll)
                self._has_moments = bool(tf.nest.flatten(moments))
            if self._has_moments:
                self._compiled_move(moments, steps)
        self._is_first = False
        return self.with_targets(unroll)

    def warm_up(self, unroll: Unroll) -> Unroll:
        """Compile what a call computes, without moving the statistics; return the batch with the agent's targets."""
        self._compiled_moments(unroll)
        return self.with_targets(unroll)

    def with_targets(self, unroll: Unroll) -> Unroll:
        """Return a batch with the agent's targets."""
        return unroll._replace(targets=self._compiled_targets(unroll))

    def _targets(self, unroll: Unroll) -> Any:
        compiled = devices.has_accelerator() and self._compiles
        return self._strategy.run(tf.function(self._agent.targets, jit_compile=compiled, autograph=False), (unroll,))

    def _moments(self, unroll: Unroll) -> Any:
        """Return the moments of a batch, a nest without tensors for an agent without statistics."""
        # Compiled also on CPUs: one pass over the observations instead of several.
        own_moments = tf.function(self._agent.moments, jit_compile=self._compiles, autograph=False)

        def on_replica(unroll: Unroll) -> Any:
            moments = own_moments(unroll)
            if not tf.nest.flatten(moments) or self._strategy.num_replicas_in_sync == 1:
                return moments
            return tf.distribute.get_replica_context().all_reduce("mean", moments)

        local = self._strategy.experimental_local_results
        moments = self._strategy.run(on_replica, (unroll,))
        return self._peers.mean(tf.nest.map_structure(lambda moment: local(moment)[0], moments))

    def _move(self, moments: Any, steps: tf.Tensor) -> None:
        def move() -> tf.Tensor:
            self._agent.update_statistics(moments, steps)
            return tf.constant(True)

        finite = [tf.reduce_all(tf.math.is_finite(moment)) for moment in tf.nest.flatten(moments)]
        tf.cond(tf.reduce_all(finite), move, lambda: tf.constant(False))
