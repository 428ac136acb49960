"""Normalisation by running statistics, and the layers between a product and its ReLU.

Statistics are weights that no gradient reaches: they are saved, exported and copied with the others. A loss reports
centred moments of its batch (`LossOutput.statistics`), of which any number of devices can take the mean, and the agent
moves the statistics by them after the optimizer step.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf

_RATE = 1e-3
"""Weight of the newest batch, once there were as many as its inverse; until then all batches weigh the same."""
_MIN_DEVIATION = 1e-2
"""Quantities that never change aren't blown up."""


class RunningMoments(keras.layers.Layer):
    """The mean and the standard deviation of a quantity, of `shape`, over the latest thousands of batches."""

    def __init__(self, shape: Sequence[int], name: str):
        super().__init__(name=name, dtype="float32", autocast=False)
        kept: dict[str, Any] = {"trainable": False, "autocast": False}  # exact in layers that compute in bfloat16, too
        self.mean = self.add_weight(name="mean", shape=shape, initializer="zeros", **kept)
        self.variance = self.add_weight(name="variance", shape=shape, initializer="ones", **kept)
        self.batches = self.add_weight(name="batches", shape=(), initializer="zeros", **kept)

    @property
    def deviation(self) -> tf.Tensor:
        """float32 of `shape`, at least 0.01."""
        return tf.maximum(tf.sqrt(self.variance.value), _MIN_DEVIATION)

    def normalise(self, x: Any) -> tf.Tensor:
        """(x - mean) / deviation, clipped to [-10, 10]: float32 of the shape of x.

        Args:
          x: [..., *shape], or with a last axis that holds several such quantities one after the other.
        """
        mean, deviation = self.mean.value, self.deviation
        if mean.shape.rank and (copies := x.shape[-1] // mean.shape[-1]) > 1:
            mean, deviation = (tf.concat([statistic] * copies, axis=-1) for statistic in (mean, deviation))
        return tf.clip_by_value((tf.cast(x, tf.float32) - mean) / deviation, -10.0, 10.0)

    def moments(self, x: Any) -> tf.Tensor:
        """float32 [2, *shape]: the first two moments of a batch [..., *shape] about the running mean."""
        x = tf.stop_gradient(tf.cast(x, tf.float32)) - self.mean.value
        axes = list(range(x.shape.rank - len(self.mean.shape)))
        return tf.stack([tf.reduce_mean(x, axes), tf.reduce_mean(tf.square(x), axes)])

    def update(self, moments: tf.Tensor) -> None:
        """Moves mean and variance by `moments` of a batch. The first batch replaces the initial values."""
        self.batches.assign(tf.minimum(self.batches.value + 1.0, 1.0 / _RATE))
        rate = 1.0 / self.batches.value
        step = rate * moments[0]
        self.mean.assign(self.mean.value + step)
        # Exact: the variance of the old and the new together, each about the old mean.
        variance = (1.0 - rate) * self.variance.value + rate * moments[1] - tf.square(step)
        self.variance.assign(tf.maximum(variance, 0.0))


class ValueHead(keras.layers.Dense):
    """A dense layer to one value in units of reward, float [..., F] to float32 [...].

    With `normalised` it is PopArt (arXiv:1602.07714, as in arXiv:1809.04474): the layer learns (value - mean) /
    deviation of the value targets, and when these statistics move, its weights change so that no output does.
    """

    def __init__(self, kernel_initializer: str, normalised: bool, name: str):
        super().__init__(1, kernel_initializer=kernel_initializer, dtype="float32", name=name)
        self._targets = RunningMoments((), name="targets") if normalised else None

    @property
    def deviation(self) -> tf.Tensor:
        """float32 scalar: the unit in which the layer learns; 1 without statistics."""
        return tf.constant(1.0) if self._targets is None else self._targets.deviation

    def call(self, features: Any) -> tf.Tensor:
        """The values [...] of features [..., F]."""
        value = tf.squeeze(super().call(features), axis=-1)
        return value if self._targets is None else self._targets.deviation * value + self._targets.mean.value

    def moments(self, targets: tf.Tensor) -> Any:
        """The statistics of a batch of value targets [...]; () if there are none to keep."""
        return () if self._targets is None else self._targets.moments(targets)

    def update(self, moments: Any) -> None:
        """Moves the statistics by `moments`, and the weights so that every output stays as it is."""
        if self._targets is None:
            return
        mean, deviation = tf.identity(self._targets.mean.value), tf.identity(self._targets.deviation)
        self._targets.update(moments)
        new_mean, new_deviation = self._targets.mean.value, self._targets.deviation
        self.kernel.assign(self.kernel.value * deviation / new_deviation)
        self.bias.assign((self.bias.value * deviation + mean - new_mean) / new_deviation)


def relu(layer_norm: bool, dtype: str, name: str) -> list[Any]:
    """The layers behind a product: ReLU, after layer normalisation over the last axis (arXiv:1607.06450) if asked for.

    Args:
      layer_norm: whether to normalise, as PQN does (arXiv:2407.04811).
      dtype: Keras policy.
      name: of the product, which theirs begin with.
    """
    norm = [keras.layers.LayerNormalization(epsilon=1e-5, dtype=dtype, name=f"{name}_norm")] if layer_norm else []
    return [*norm, keras.layers.Activation("relu", dtype=dtype, name=f"{name}_relu")]


def before_relu(initializer: str) -> Any:
    """The Keras initializer of a kernel in front of a ReLU; for `orthogonal`, the gain that keeps the scale."""
    if initializer != "orthogonal":
        return initializer
    return {"class_name": "Orthogonal", "config": {"gain": math.sqrt(2.0)}}
