"""The Q-network of the PQN agent."""

from __future__ import annotations

import keras
import tensorflow as tf

from seed_rl.networks.trunk import Trunk, TrunkModel
from seed_rl.rl import masks


class QNetwork(TrunkModel):
    """A trunk with one dense layer to the values of A actions, which are nearly zero before any update."""

    def __init__(self, trunk: Trunk, num_actions: int):
        super().__init__(trunk, name="q_network")
        small = keras.initializers.VarianceScaling(1e-4)
        self._q = keras.layers.Dense(num_actions, kernel_initializer=small, dtype="float32", name="q")

    def heads(self, features: tf.Tensor, legal: tf.Tensor | None = None) -> tf.Tensor:
        """Q-values float32 [T, B, A]."""
        return masks.masked(self._q(features), legal)
