"""The policy and baseline network of the V-trace agent."""

from __future__ import annotations

from typing import Any, NamedTuple

import keras
import tensorflow as tf

from seed_rl.networks.trunk import Trunk, TrunkState
from seed_rl.types import EnvOutput


class NetworkOutput(NamedTuple):
    """Policy and value at each of T steps of B environments."""

    policy: tf.Tensor
    """float32 [T, B, P]: parameters of the distribution over actions, such as logits."""
    baseline: tf.Tensor
    """float32 [T, B]"""


class ActorCritic(keras.Model):
    """A trunk with a policy and a baseline head."""

    def __init__(self, trunk: Trunk, num_parameters: int):
        """
        Args:
          trunk: the network below the heads.
          num_parameters: P, of the distribution over actions.
        """
        super().__init__(name="actor_critic", autocast=False)  # each layer casts its own input
        self._trunk = trunk
        # Nearly uniform at first: no preference before any experience.
        uniform = keras.initializers.VarianceScaling(1e-4)
        self._policy = keras.layers.Dense(num_parameters, kernel_initializer=uniform, dtype="float32", name="policy")
        self._baseline = keras.layers.Dense(1, dtype="float32", name="baseline")

    def initial_state(self, batch_size: int) -> TrunkState:
        """The state before the first step of an episode."""
        return self._trunk.initial_state(batch_size)

    def build(self, *shapes: Any) -> None:
        """Nothing to do: each layer is built, and checks its input, when `call` first reaches it."""

    def call(
        self, prev_action: tf.Tensor, env_output: EnvOutput, state: TrunkState
    ) -> tuple[NetworkOutput, TrunkState]:
        """Runs T steps of B environments: see `Trunk.call`.

        Returns:
          The outputs of all steps, and the state after the last one.
        """
        features, state = self._trunk(prev_action, env_output, state)
        return NetworkOutput(self._policy(features), tf.squeeze(self._baseline(features), axis=-1)), state
