"""The Q-network of the R2D2 agent."""

import functools
from typing import Any

import keras
import tensorflow as tf

from seed_rl.agents.r2d2.config import R2D2
from seed_rl.networks.trunk import Trunk, TrunkModel, TrunkState
from seed_rl.rl import masks
from seed_rl.types import EnvOutput


class DuelingQNetwork(TrunkModel):
    """A trunk with dueling heads (arXiv:1511.06581): Q(x, a) = V(x) + A(x, a) - mean over legal b of A(x, b).

    Each head has a hidden layer; the advantages need no bias, which would cancel out. With N quantiles of the returns,
    the same holds for each of them.
    """

    def __init__(self, config: R2D2, trunk: Trunk, num_actions: int):
        super().__init__(trunk, name="q_network")
        self._quantiles, self._num_actions = config.quantiles, num_actions
        count = max(1, config.quantiles)
        same: dict[str, Any] = {"kernel_initializer": config.kernel_initializer, "dtype": config.dtype}
        hidden = functools.partial(keras.layers.Dense, config.head_hidden, activation="relu", **same)
        # Nearly zero at first: targets bootstrap from these values, and random initial values would take many updates
        # of the target network to fade.
        small = keras.initializers.VarianceScaling(1e-4)
        self._value_hidden = hidden(name="value_hidden")
        self._value = keras.layers.Dense(count, kernel_initializer=small, dtype="float32", name="value")
        self._advantage_hidden = hidden(name="advantage_hidden")
        self._advantage = keras.layers.Dense(
            count * num_actions, use_bias=False, kernel_initializer=small, dtype="float32", name="advantage"
        )

    def heads(self, features: tf.Tensor, legal: tf.Tensor | None = None) -> tf.Tensor:
        """The Q-values, float32 [T, B, A], or N quantiles of the returns, float32 [T, B, N, A]; rescaled if the agent
        rescales values."""
        value = self._value(self._value_hidden(features))
        advantage = self._advantage(self._advantage_hidden(features))
        if self._quantiles:
            value = value[..., tf.newaxis]
            advantage = tf.reshape(advantage, [*value.shape[:-1], self._num_actions])
            legal = None if legal is None else legal[..., tf.newaxis, :]
        return masks.masked(value + advantage - masks.legal_mean(advantage, legal), legal)

    def burn_in(self, prev_action: tf.Tensor, env_output: EnvOutput, state: TrunkState) -> TrunkState:
        """The state after T steps, given the state before them, without gradients and without computing Q."""
        _, state = self.trunk(prev_action, env_output, state)
        return tf.nest.map_structure(tf.stop_gradient, state)
