"""The network of an actor-critic agent: a policy and a value."""

from __future__ import annotations

from typing import Any, NamedTuple

import keras
import tensorflow as tf

from seed_rl.networks.normalisation import ValueHead
from seed_rl.networks.trunk import Trunk, TrunkModel
from seed_rl.rl import masks
from seed_rl.types import EnvOutput


class NetworkOutput(NamedTuple):
    """Policy and value at each of T steps of B environments."""

    policy: tf.Tensor
    """float32 [T, B, P]: parameters of the distribution over actions, such as logits."""
    baseline: tf.Tensor
    """float32 [T, B]: the value estimate."""


class Moments(NamedTuple):
    """The contribution of a batch to the running statistics."""

    observations: Any
    """The result of `Trunk.moments`."""
    value_targets: Any
    """The result of `ValueHead.moments`."""


class ActorCritic(TrunkModel):
    """A trunk with a policy and a baseline head."""

    def __init__(self, trunk: Trunk, num_parameters: int, value_norm: bool = False, free_half: bool = False):
        """
        Args:
          trunk: the network below the heads.
          num_parameters: P, the number of parameters of the action distribution.
          value_norm: whether the `ValueHead` is normalised.
          free_half: whether the second half of the parameters, the deviations, is independent of the state.
        """
        super().__init__(trunk, name="actor_critic")
        # Nearly uniform at first: no preference before any experience.
        uniform = keras.initializers.VarianceScaling(1e-4)
        dependent = num_parameters // 2 if free_half else num_parameters
        self._free: Any = None
        if free_half:
            self._free = self.add_weight(shape=[dependent], initializer="zeros", name="free", dtype="float32")
        self._policy = keras.layers.Dense(dependent, kernel_initializer=uniform, dtype="float32", name="policy")
        self.baseline = ValueHead(value_norm, name="baseline")

    def heads(self, features: tf.Tensor, legal: tf.Tensor | None = None) -> NetworkOutput:
        """The policy and the value at each step."""
        policy = masks.masked(self._policy(features), legal)
        if self._free is not None:
            policy = tf.concat([policy, tf.broadcast_to(self._free.value, tf.shape(policy))], axis=-1)
        return NetworkOutput(policy, self.baseline(features))

    def moments(self, env_output: EnvOutput, value_targets: tf.Tensor) -> Moments:
        """The moments, for `update_statistics`, of a batch of steps [T + 1, B, ...] and value targets [T, B]."""
        return Moments(self.trunk.moments(env_output), self.baseline.moments(value_targets))

    def update_statistics(self, moments: Moments, steps: float) -> None:
        """Updates the running statistics of observations and value targets."""
        super().update_statistics(moments.observations, steps)
        self.baseline.update(moments.value_targets, steps)
