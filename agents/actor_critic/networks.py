"""The network of an actor-critic agent, a policy and a value."""

from typing import Any, NamedTuple

import keras
import tensorflow as tf

from seed_rl.networks.normalisation import ValueHead
from seed_rl.networks.trunk import Trunk, TrunkModel
from seed_rl.rl import masks
from seed_rl.types import EnvOutput


class NetworkOutput(NamedTuple):
    """What the network outputs at each of T steps of B environments."""

    policy: tf.Tensor
    """float32 [T, B, P]: parameters of the distribution over actions, such as logits."""
    baseline: tf.Tensor
    """float32 [T, B]: the value estimate."""
    more: Any = ()
    """Nest [T, B, ...]: outputs of a subclass's own heads, for its own terms of the loss; not stored while acting."""


class Moments(NamedTuple):
    """The contribution of a batch to the running statistics."""

    observations: Any
    """The result of `Trunk.moments`."""
    value_targets: Any
    """The result of `ValueHead.moments`."""


class ActorCritic(TrunkModel):
    """A trunk with a head for the P parameters of the action distribution and one for the value.

    The last `num_free` parameters, the deviations, are independent of the state.
    """

    def __init__(self, trunk: Trunk, num_parameters: int, value_norm: bool, num_free: int):
        super().__init__(trunk, name="actor_critic")
        # Nearly uniform at first: no preference before any experience.
        uniform = keras.initializers.VarianceScaling(1e-4)
        self._free: Any = None
        if num_free:
            self._free = self.add_weight(shape=[num_free], initializer="zeros", name="free", dtype="float32")
        self._policy = keras.layers.Dense(
            num_parameters - num_free, kernel_initializer=uniform, dtype="float32", name="policy"
        )
        self.baseline = ValueHead(value_norm, name="baseline")

    def heads(self, features: tf.Tensor, legal: tf.Tensor | None = None) -> NetworkOutput:
        """The policy and the value at each step."""
        policy = masks.masked(self._policy(features), legal)
        if self._free is not None:
            free = tf.broadcast_to(self._free.value, tf.concat([tf.shape(policy)[:-1], self._free.shape], 0))
            policy = tf.concat([policy, free], axis=-1)
        return NetworkOutput(policy, self.baseline(features))

    def moments(self, env_output: EnvOutput, value_targets: tf.Tensor, last_t: tf.Tensor) -> Moments:
        """The moments for `update_statistics`: of steps [T + 1, B, ...], and of targets [T, B] except at `last_t`."""
        return Moments(self.trunk.moments(env_output), self.baseline.moments(value_targets, last_t))

    def update_statistics(self, moments: Moments, steps: float) -> None:
        """Update the running statistics of observations and value targets."""
        super().update_statistics(moments.observations, steps)
        self.baseline.update(moments.value_targets, steps)
