"""Normalisation by running statistics, PopArt value heads, and layer normalisation before a ReLU.

Statistics are non-trainable weights: they are saved, exported and copied with the others. Each batch updates them once,
before its first optimizer step, from centred moments (`Agent.moments`), which can be averaged over any number of
devices.
"""

import math
from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf

from seed_rl.networks.frame_stack import in_blocks

_WINDOW = 131_072.0
"""Agent steps over which old statistics decay; until that many have been seen, all have equal weight."""
_CLIP = 10.0
"""Standard deviations from the mean at which a standardised quantity is clipped."""
_ROUNDING = 3e-7
"""A standard deviation below this fraction of the mean is float32 rounding: the quantity has never changed."""


class RunningMoments(keras.layers.Layer):
    """The mean and standard deviation of a quantity over roughly the last hundred thousand agent steps."""

    def __init__(self, shape: Sequence[int], name: str, bounded: bool = False):
        """Start without values of a quantity of a `shape`.

        If `bounded`, each value is clipped at the distance from the mean (in the first batch, from the median) at which
        it would double the variance. No outlier can then blind a run, and a growing quantity is tracked within a few
        batches.
        """
        super().__init__(name=name, dtype="float32", autocast=False)
        kept: dict[str, Any] = {"trainable": False, "autocast": False}  # exact even in layers that compute in bfloat16
        self._bounded = bounded
        self.mean = self.add_weight(name="mean", shape=shape, initializer="zeros", **kept)
        self.variance = self.add_weight(name="variance", shape=shape, initializer="ones", **kept)
        self.steps = self.add_weight(name="steps", shape=(), initializer=keras.initializers.Constant(-1.0), **kept)
        """Agent steps seen, up to the window; -1 before the first batch, which is shown twice."""

    @property
    def deviation(self) -> tf.Tensor:
        """The standard deviation, float32 of `shape`; for a constant quantity its magnitude, or 1 if it is zero."""
        deviation, size = tf.sqrt(self.variance.value), tf.abs(self.mean.value)
        constant = tf.where(size > 0.0, size, tf.ones_like(size))
        return tf.where(deviation > _ROUNDING * size, deviation, constant)

    def normalise(self, x: Any) -> tf.Tensor:
        """(x - mean) / deviation, clipped to [-10, 10]: float32 with the shape of x, [..., *shape], or of several such
        quantities concatenated along the last axis."""
        return normalised(x, *self.statistics(tf.convert_to_tensor(x).shape[-1] if self.mean.shape.rank else 0))

    def statistics(self, channels: int, block: int = 1) -> tuple[tf.Tensor, tf.Tensor]:
        """The mean and 1 / deviation, float32 of `shape`, repeated along the last axis to `channels` for concatenated
        quantities, and in blocks for frames that come in blocks (`frame_stack.stack_frames`)."""
        mean, scale = (in_blocks(statistic, block) for statistic in (self.mean.value, 1.0 / self.deviation))
        if mean.shape.rank and (copies := channels // mean.shape[-1]) > 1:
            mean, scale = (tf.concat([statistic] * copies, axis=-1) for statistic in (mean, scale))
        return mean, scale

    def moments(self, x: Any, left_out: Any = None) -> tf.Tensor:
        """The zeroth, first and second moment of a batch [..., *shape] about the running mean: float32 [3, *shape].

        Values do not count where `left_out`, bool [...].
        """
        x = tf.stop_gradient(tf.cast(x, tf.float32)) - self.mean.value
        x = tf.reshape(x, [-1, *self.mean.shape])
        if self._bounded:
            middle, unit = tf.cond(self.steps.value > 0.0, self._spread, lambda: _robust_spread(x))
            count = tf.maximum(self.steps.value, tf.cast(tf.shape(x)[0], tf.float32))
            reach = tf.where(unit > 0.0, tf.maximum(_CLIP, tf.sqrt(count)) * unit, tf.float32.max / 2)
            x = tf.clip_by_value(x, middle - reach, middle + reach)
        powers = [tf.ones_like(x), x, tf.square(x)]
        moments = tf.stack([tf.reduce_mean(power, axis=0) for power in powers])
        if left_out is not None:
            out = tf.reshape(tf.cast(left_out, tf.float32), [-1, *[1] * self.mean.shape.rank])
            moments -= tf.stack([tf.reduce_mean(out * power, axis=0) for power in powers])
        return moments

    def _spread(self) -> tuple[tf.Tensor, tf.Tensor]:
        """The centre of the values relative to the running mean, and their deviation; zero if they never changed."""
        deviation, rounding = tf.sqrt(self.variance.value), _ROUNDING * tf.abs(self.mean.value)
        return tf.zeros_like(deviation), tf.where(deviation > rounding, deviation, tf.zeros_like(deviation))

    def update(self, moments: tf.Tensor, steps: float) -> None:
        """Update mean and variance from the `moments` of a batch of `steps` agent steps.

        The first call only sets the mean; the moments of the same batch must then be computed again about it, because
        float32 can't resolve a variance about a distant point.
        """
        begins = self.steps.value < 0.0
        share, first, second = tf.unstack(moments)
        added = steps * tf.reduce_mean(share)  # the same in all places of the shape
        total = tf.minimum(tf.maximum(self.steps.value, 0.0) + added, _WINDOW)
        rate = tf.minimum(tf.math.divide_no_nan(added, total), 1.0)
        step = rate * tf.math.divide_no_nan(first, share)
        # Exact: the variance of old and new values combined, both measured about the old mean.
        variance = (1.0 - rate) * self.variance.value + rate * tf.math.divide_no_nan(second, share) - tf.square(step)
        self.mean.assign(self.mean.value + step)
        self.variance.assign(tf.where(begins, self.variance.value, tf.maximum(variance, 0.0)))
        self.steps.assign(tf.where(begins, 0.0, total))


def normalised(x: Any, mean: tf.Tensor, scale: tf.Tensor) -> tf.Tensor:
    """(x - mean) * scale, float32, clipped to 10 deviations."""
    return tf.clip_by_value((tf.cast(x, tf.float32) - mean) * scale, -_CLIP, _CLIP)


def _robust_spread(x: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """The median of [N, ...] and the median absolute deviation from it, both robust to outliers."""

    def median(values: tf.Tensor) -> tf.Tensor:
        return tf.sort(values, axis=0)[tf.shape(values)[0] // 2]

    middle = median(x)
    return middle, median(tf.abs(x - middle))


class ValueHead(keras.layers.Dense):
    """A dense layer from features, float [..., F], to values in units of reward, float32 [...]; zero-initialised.

    With `normalised` it implements PopArt (arXiv:1602.07714, as in arXiv:1809.04474): the layer learns values
    standardised by the mean and deviation of the value targets; when these statistics change, its weights are adjusted
    so that its outputs don't.
    """

    def __init__(self, normalised: bool, name: str):
        super().__init__(1, kernel_initializer="zeros", dtype="float32", name=name)
        self._targets = RunningMoments((), name="targets") if normalised else None

    @property
    def deviation(self) -> tf.Tensor:
        """The unit in which the layer learns, float32 scalar; 1 without statistics."""
        return tf.constant(1.0) if self._targets is None else self._targets.deviation

    def call(self, features: Any) -> tf.Tensor:
        """Map features [..., F] to values [...]."""
        value = tf.squeeze(super().call(features), axis=-1)
        return value if self._targets is None else self._targets.deviation * value + self._targets.mean.value

    def moments(self, targets: tf.Tensor, left_out: tf.Tensor | None = None) -> Any:
        """The moments of value targets [...], except where `left_out`, bool [...]; () without statistics."""
        return () if self._targets is None else self._targets.moments(targets, left_out)

    def update(self, moments: Any, steps: float) -> None:
        """Update the statistics from the `moments` of a batch of `steps` agent steps; outputs stay the same."""
        if self._targets is None:
            return
        mean, deviation = tf.identity(self._targets.mean.value), self._targets.deviation
        self._targets.update(moments, steps)
        new_mean, new_deviation = self._targets.mean.value, self._targets.deviation
        self.kernel.assign(self.kernel.value * deviation / new_deviation)
        self.bias.assign((self.bias.value * deviation + mean - new_mean) / new_deviation)


def relu(normalised: bool, dtype: str, name: str) -> list[Any]:
    """What follows layer `name`: layer normalisation over the last axis (arXiv:1607.06450) if wanted, and a ReLU."""
    norm = [keras.layers.LayerNormalization(epsilon=1e-5, dtype=dtype, name=f"{name}_norm")] if normalised else []
    return [*norm, keras.layers.Activation("relu", dtype=dtype, name=f"{name}_relu")]


def before_relu(initializer: str) -> Any:
    """The Keras initializer of a kernel before a ReLU; `orthogonal` gets the gain that preserves the scale."""
    if initializer != "orthogonal":
        return initializer
    return {"class_name": "Orthogonal", "config": {"gain": math.sqrt(2.0)}}
