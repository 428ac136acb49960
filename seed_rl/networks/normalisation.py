"""Normalisation by running statistics, and the layers between a product and its ReLU.

Statistics are weights that no gradient reaches: they are saved, exported and copied with the others. A batch moves them
once, before its first optimizer step, by centred moments (`Agent.moments`) of which any number of devices can take the
mean.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Sequence
from typing import Any

import keras
import tensorflow as tf

_WINDOW = 131_072.0
"""Agent steps over which the statistics forget; before that, all steps weigh the same."""
_CLIP = 10.0
"""Deviations from the mean beyond which a standardised quantity is clipped."""
_ROUNDING = 3e-7
"""A deviation of this share of the mean is the rounding of float32: the quantity has never changed."""


class RunningMoments(keras.layers.Layer):
    """The mean and the standard deviation of a quantity, of `shape`, over the latest hundred thousand steps."""

    def __init__(self, shape: Sequence[int], name: str, bounded: bool = False):
        """
        Args:
          shape: of the quantity.
          name: of the layer.
          bounded: count a value at most as far from the mean as lets it double the variance, and in the first batch
            from the median: no outlier blinds a run, and a quantity that grows is followed within a few batches.
        """
        super().__init__(name=name, dtype="float32", autocast=False)
        kept: dict[str, Any] = {"trainable": False, "autocast": False}  # exact in layers that compute in bfloat16, too
        self._bounded = bounded
        self.mean = self.add_weight(name="mean", shape=shape, initializer="zeros", **kept)
        self.variance = self.add_weight(name="variance", shape=shape, initializer="ones", **kept)
        self.steps = self.add_weight(name="steps", shape=(), initializer=keras.initializers.Constant(-1.0), **kept)
        """Agent steps behind the statistics, up to the window; -1 before the first batch, which is shown twice."""

    @property
    def deviation(self) -> tf.Tensor:
        """float32 of `shape`; of a quantity that never changed its magnitude, or 1 if it is zero."""
        deviation, size = tf.sqrt(self.variance.value), tf.abs(self.mean.value)
        constant = tf.where(size > 0.0, size, tf.ones_like(size))
        return tf.where(deviation > _ROUNDING * size, deviation, constant)

    def normalise(self, x: Any) -> tf.Tensor:
        """(x - mean) / deviation, clipped to [-10, 10]: float32 of the shape of x.

        Args:
          x: [..., *shape], or with a last axis that holds several such quantities one after the other.
        """
        mean, scale = self.mean.value, 1.0 / self.deviation
        if mean.shape.rank and (copies := x.shape[-1] // mean.shape[-1]) > 1:
            mean, scale = (tf.concat([statistic] * copies, axis=-1) for statistic in (mean, scale))
        return tf.clip_by_value((tf.cast(x, tf.float32) - mean) * scale, -_CLIP, _CLIP)

    def moments(self, x: Any) -> tf.Tensor:
        """float32 [2, *shape]: the first two moments of a batch [..., *shape] about the running mean."""
        x = tf.stop_gradient(tf.cast(x, tf.float32)) - self.mean.value
        x = tf.reshape(x, [-1, *self.mean.shape])
        if self._bounded:
            middle, unit = tf.cond(self.steps.value > 0.0, self._spread, lambda: _robust_spread(x))
            count = tf.maximum(self.steps.value, tf.cast(tf.shape(x)[0], tf.float32))
            reach = tf.where(unit > 0.0, tf.maximum(_CLIP, tf.sqrt(count)) * unit, tf.float32.max / 2)
            x = tf.clip_by_value(x, middle - reach, middle + reach)
        return tf.stack([tf.reduce_mean(x, axis=0), tf.reduce_mean(tf.square(x), axis=0)])

    def _spread(self) -> tuple[tf.Tensor, tf.Tensor]:
        """Where values lie about the running mean, and how far from there; zero if they never changed."""
        deviation, rounding = tf.sqrt(self.variance.value), _ROUNDING * tf.abs(self.mean.value)
        return tf.zeros_like(deviation), tf.where(deviation > rounding, deviation, tf.zeros_like(deviation))

    def update(self, moments: tf.Tensor, steps: float) -> None:
        """Moves mean and variance by the `moments` of a batch of so many agent steps.

        The first call gives the mean alone, about which the same batch is then to be measured again: far from the mean,
        float32 can't tell a variance.
        """
        first = self.steps.value < 0.0
        total = tf.minimum(tf.maximum(self.steps.value, 0.0) + steps, _WINDOW)
        rate = tf.minimum(steps / total, 1.0)
        step = rate * moments[0]
        self.mean.assign(self.mean.value + step)
        # Exact: the variance of the old and the new together, each about the old mean.
        variance = (1.0 - rate) * self.variance.value + rate * moments[1] - tf.square(step)
        self.variance.assign(tf.where(first, self.variance.value, tf.maximum(variance, 0.0)))
        self.steps.assign(tf.where(first, 0.0, total))


def _robust_spread(x: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """The median of [N, ...] and the median distance from it, which outliers don't move."""

    def median(values: tf.Tensor) -> tf.Tensor:
        return tf.sort(values, axis=0)[tf.shape(values)[0] // 2]

    middle = median(x)
    return middle, median(tf.abs(x - middle))


class ValueHead(keras.layers.Dense):
    """A dense layer to one value in units of reward, float [..., F] to float32 [...]; zero before any update.

    With `normalised` it is PopArt (arXiv:1602.07714, as in arXiv:1809.04474): the layer learns (value - mean) /
    deviation of the value targets, and when these statistics move, its weights change so that no output does.
    """

    def __init__(self, normalised: bool, name: str):
        super().__init__(1, kernel_initializer="zeros", dtype="float32", name=name)
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

    def update(self, moments: Any, steps: float) -> None:
        """Moves the statistics by the `moments` of a batch of so many agent steps; no output changes."""
        if self._targets is not None:
            with self._same_outputs(self._targets):
                self._targets.update(moments, steps)

    def take_unit_of(self, other: ValueHead) -> None:
        """Takes the statistics of `other`, so that a mean of the weights of both is one of their outputs."""
        if self._targets is not None and other._targets is not None:
            with self._same_outputs(self._targets):
                for own, theirs in zip(self._targets.variables, other._targets.variables, strict=True):
                    own.assign(theirs.value)

    @contextlib.contextmanager
    def _same_outputs(self, targets: RunningMoments) -> Iterator[None]:
        """Changes the weights so that every output stays as it is while the statistics move."""
        mean, deviation = tf.identity(targets.mean.value), targets.deviation
        yield
        new_mean, new_deviation = targets.mean.value, targets.deviation
        self.kernel.assign(self.kernel.value * deviation / new_deviation)
        self.bias.assign((self.bias.value * deviation + mean - new_mean) / new_deviation)


def relu(normalised: bool, dtype: str, name: str) -> list[Any]:
    """The layers behind a product: ReLU, after layer normalisation over the last axis (arXiv:1607.06450) if asked for.

    Args:
      normalised: whether to normalise.
      dtype: Keras policy.
      name: of the product, which theirs begin with.
    """
    norm = [keras.layers.LayerNormalization(epsilon=1e-5, dtype=dtype, name=f"{name}_norm")] if normalised else []
    return [*norm, keras.layers.Activation("relu", dtype=dtype, name=f"{name}_relu")]


def before_relu(initializer: str) -> Any:
    """The Keras initializer of a kernel in front of a ReLU; for `orthogonal`, the gain that keeps the scale."""
    if initializer != "orthogonal":
        return initializer
    return {"class_name": "Orthogonal", "config": {"gain": math.sqrt(2.0)}}
