"""The policy and baseline network of the V-trace agent."""

from __future__ import annotations

from typing import NamedTuple

import keras
import tensorflow as tf

from seed_rl.networks.trunk import Trunk, TrunkModel


class NetworkOutput(NamedTuple):
    """Policy and value at each of T steps of B environments."""

    policy: tf.Tensor
    """float32 [T, B, P]: parameters of the distribution over actions, such as logits."""
    baseline: tf.Tensor
    """float32 [T, B]"""


class ActorCritic(TrunkModel):
    """A trunk with a policy and a baseline head."""

    def __init__(self, trunk: Trunk, num_parameters: int, kernel_initializer: str = "glorot_uniform"):
        """
        Args:
          trunk: the network below the heads.
          num_parameters: P, of the distribution over actions.
          kernel_initializer: of the baseline head.
        """
        super().__init__(trunk, name="actor_critic")
        # Nearly uniform at first: no preference before any experience.
        uniform = keras.initializers.VarianceScaling(1e-4)
        self._policy = keras.layers.Dense(num_parameters, kernel_initializer=uniform, dtype="float32", name="policy")
        self._baseline = keras.layers.Dense(1, kernel_initializer=kernel_initializer, dtype="float32", name="baseline")

    def heads(self, features: tf.Tensor) -> NetworkOutput:
        """Policy and value of each step."""
        return NetworkOutput(self._policy(features), tf.squeeze(self._baseline(features), axis=-1))
