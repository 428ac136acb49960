"""The networks of the SAC agent. Shapes: T steps, B sequences, F features, K action dimensions."""

from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf

from seed_rl.agents.sac.config import SAC
from seed_rl.networks.torsos import dense
from seed_rl.networks.trunk import Trunk, TrunkModel
from seed_rl.types import Unroll


class Actor(TrunkModel):
    """The policy network; it outputs parameters of the action distribution, float32 [T, B, P]."""

    def __init__(self, config: SAC, trunk: Trunk, num_parameters: int):
        super().__init__(trunk, name="actor")
        self._head = _head(config, num_parameters, "policy")

    def heads(self, features: tf.Tensor, legal: tf.Tensor | None = None) -> tf.Tensor:
        """Map features [T, B, F] to policy parameters."""
        return _through(self._head, features)


class Critics(keras.Model):
    """Two critics that share a trunk."""

    def __init__(self, config: SAC, trunk: Trunk):
        super().__init__(name="critics", autocast=False)
        self.trunk = trunk
        self._heads = [_head(config, 1, f"q_{index}") for index in range(2)]

    def build(self, *shapes: Any) -> None:
        """Do nothing: each layer is built on first use."""

    def features(self, unroll: Unroll) -> tf.Tensor:
        """The features of the states in an unroll [T, B, ...]: float32 [T, B, F]."""
        return tf.cast(self.trunk(unroll.prev_action, unroll.env_output, unroll.initial_state)[0], tf.float32)

    def call(self, features: tf.Tensor, actions: tf.Tensor) -> tf.Tensor:
        """The values of `actions` [T, B, K], scaled to [-1, 1], in states with these `features`: float32 [2, T, B]."""
        inputs = tf.concat([features, actions], axis=-1)
        return tf.stack([tf.squeeze(_through(head, inputs), axis=-1) for head in self._heads])


def _head(config: SAC, outputs: int, name: str) -> list[Any]:
    layers: list[Any] = []
    for index in range(config.head_layers):
        layers += dense(config, config.hidden, f"{name}_hidden_{index}", is_last=False)
    return [*layers, keras.layers.Dense(outputs, dtype="float32", name=name)]


def _through(layers: Sequence[Any], x: tf.Tensor) -> tf.Tensor:
    for layer in layers:
        x = layer(x)
    return x
