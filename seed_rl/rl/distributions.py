"""Action distributions, one for each kind of action space, parametrised by unbounded network outputs.

Shapes: any leading axes (written ...), P parameters, K components of an action, F features. All computation is in
float32, whatever the dtype of the parameters.
"""

import abc
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from seed_rl.rl import checks, masks, randomness
from seed_rl.specs import ActionSpec, DiscreteSpec, MixedSpec, MultiDiscreteSpec


class ActionDistribution(abc.ABC):
    """A distribution over actions, parametrised by P network outputs for each step."""

    num_parameters: int
    """P, the number of parameters."""
    num_deviations: int = 0
    """Number of the last parameters that are deviations of continuous components."""

    @abc.abstractmethod
    def sample(self, parameters: Any, seed: Any) -> tf.Tensor:
        """Draw actions [...] or [..., K] given `parameters` [..., P]; `seed`, int32 [2], is all the randomness."""

    @abc.abstractmethod
    def mode(self, parameters: Any) -> tf.Tensor:
        """Greedy actions, shaped as in `sample`: the most probable one, or the median of a continuous distribution."""

    @abc.abstractmethod
    def log_prob(self, parameters: Any, actions: Any) -> tf.Tensor:
        """The log probability or log density of `actions`, float32 [...]."""

    @abc.abstractmethod
    def entropy(self, parameters: Any) -> tf.Tensor:
        """The entropy in nats, float32 [...]; may be negative for densities."""

    def max_entropy(self, parameters: Any) -> tf.Tensor | None:
        """The entropy of equally likely legal actions in nats, float32 [...]; None for densities."""
        return None

    @abc.abstractmethod
    def features(self, actions: Any) -> tf.Tensor:
        """`actions` encoded as network inputs, float32 [..., F]."""


class Categorical(ActionDistribution):
    """One of A actions; the parameters are unnormalised logits [..., A].

    Logits must be finite: illegal actions have `masks.ILLEGAL` rather than minus infinity.
    """

    def __init__(self, num_actions: int):
        self.num_parameters = num_actions

    def sample(self, parameters: Any, seed: Any) -> tf.Tensor:
        """Sample with the Gumbel-max trick: argmax_a (logits_a - log(-log u_a)) is distributed as softmax(logits).

        The same seed gives the same actions on every device, up to differences in logits and logarithms.
        """
        logits = tf.cast(parameters, tf.float32)
        checks.check_shape("seed", seed, [2])
        u = randomness.uniform(tf.shape(logits), seed)  # never 0 or 1: both logarithms are finite
        return self.mode(logits - tf.math.log(-tf.math.log(u)))

    def mode(self, parameters: Any) -> tf.Tensor:
        """The most probable action, the first one in a tie."""
        return tf.argmax(tf.cast(parameters, tf.float32), axis=-1, output_type=tf.int32)

    def log_prob(self, parameters: Any, actions: Any) -> tf.Tensor:
        logits = tf.cast(parameters, tf.float32)
        checks.check_shape("actions", actions, checks.static_shape(logits)[:-1])
        return -tf.nn.sparse_softmax_cross_entropy_with_logits(labels=actions, logits=logits)

    def entropy(self, parameters: Any) -> tf.Tensor:
        log_probs = tf.nn.log_softmax(tf.cast(parameters, tf.float32))
        return -tf.reduce_sum(tf.exp(log_probs) * log_probs, axis=-1)

    def max_entropy(self, parameters: Any) -> tf.Tensor:
        legal = masks.is_legal(tf.cast(parameters, tf.float32))
        return tf.math.log(tf.reduce_sum(tf.cast(legal, tf.float32), axis=-1))

    def features(self, actions: Any) -> tf.Tensor:
        return tf.one_hot(actions, self.num_parameters)


class Joint(ActionDistribution):
    """K independent choices, and then M numbers if there are any; the parameters of the parts follow each other.

    Actions are int32 [..., K], or with numbers float32 [..., K + M], in which choices are whole numbers.
    """

    def __init__(self, num_values: Sequence[int], numbers: ActionDistribution | None = None):
        """Take the number of values of each choice, and the distribution of the numbers, a scaled normal one."""
        self._num_choices, self._numbers = len(num_values), numbers
        self._parts = [*map(Categorical, num_values), *([] if numbers is None else [numbers])]
        self.num_parameters = sum(own.num_parameters for own in self._parts)
        self.num_deviations = 0 if numbers is None else numbers.num_deviations

    def sample(self, parameters: Any, seed: Any) -> tf.Tensor:
        seeds = randomness.split(seed, len(self._parts))
        return self._join([own.sample(x, s) for own, x, s in self._zip(self._split(parameters), seeds)])

    def mode(self, parameters: Any) -> tf.Tensor:
        return self._join([own.mode(x) for own, x in self._zip(self._split(parameters))])

    def log_prob(self, parameters: Any, actions: Any) -> tf.Tensor:
        parts = self._zip(self._split(parameters), self._unjoin(actions))
        return tf.add_n([own.log_prob(x, action) for own, x, action in parts])

    def entropy(self, parameters: Any) -> tf.Tensor:
        return tf.add_n([own.entropy(x) for own, x in self._zip(self._split(parameters))])

    def max_entropy(self, parameters: Any) -> tf.Tensor | None:
        if self._numbers is not None:
            return None
        return tf.add_n([own.max_entropy(x) for own, x in self._zip(self._split(parameters))])

    def features(self, actions: Any) -> tf.Tensor:
        return tf.concat([own.features(action) for own, action in self._zip(self._unjoin(actions))], axis=-1)

    def _zip(self, *parts: Sequence[tf.Tensor]) -> Any:
        return zip(self._parts, *parts, strict=True)

    def _split(self, parameters: Any) -> list[tf.Tensor]:
        checks.check_shape("parameters", parameters, [*checks.static_shape(parameters)[:-1], self.num_parameters])
        return tf.split(parameters, [own.num_parameters for own in self._parts], axis=-1)

    def _join(self, parts: list[tf.Tensor]) -> tf.Tensor:
        choices = tf.stack(parts[: self._num_choices], axis=-1)
        return choices if self._numbers is None else tf.concat([tf.cast(choices, tf.float32), parts[-1]], axis=-1)

    def _unjoin(self, actions: Any) -> list[tf.Tensor]:
        sizes = [self._num_choices, self.num_deviations]
        checks.check_shape("actions", actions, [*checks.static_shape(actions)[:-1], sum(sizes)])
        choices, numbers = tf.split(actions, sizes, axis=-1)
        return [*tf.unstack(tf.cast(choices, tf.int32), axis=-1), *([] if self._numbers is None else [numbers])]


class _ScaledNormal(ActionDistribution):
    """K independent normal variables that are mapped to actions; -1 and 1 on their scale are the action bounds.

    The parameters are K means, then K numbers x; the standard deviations are softplus(x + c) + `MIN_DEVIATION`.
    """

    MIN_DEVIATION = 1e-3

    def __init__(self, low: Sequence[float], high: Sequence[float], initial_deviation: float = 1.0):
        """Take the bounds of K components, and the deviation at x = 0, which is more than `MIN_DEVIATION`."""
        self._offset = math.log(math.expm1(initial_deviation - self.MIN_DEVIATION))  # c, by the inverse of softplus
        self._low, self._high = np.array(low, np.float32), np.array(high, np.float32)
        self._half = (self._high - self._low) / 2
        self._middle = self._low + self._half  # the sum of the bounds may overflow
        self.num_parameters, self.num_deviations = 2 * len(self._low), len(self._low)

    def sample(self, parameters: Any, seed: Any) -> tf.Tensor:
        mean, deviation = self._mean_and_deviation(parameters)
        return self._action(mean + deviation * randomness.normal(tf.shape(mean), seed))

    def mode(self, parameters: Any) -> tf.Tensor:
        """The median, which is the image of the normal mean. (The density may have its maximum at a bound.)"""
        return self._action(self._mean_and_deviation(parameters)[0])

    def features(self, actions: Any) -> tf.Tensor:
        """Actions scaled to [-1, 1], and clipped: the zeros that precede the first action may be out of bounds."""
        scaled = (tf.cast(actions, tf.float32) - self._middle) / self._half
        return tf.clip_by_value(scaled, -1.0, 1.0)

    def _action(self, u: tf.Tensor) -> tf.Tensor:
        return tf.clip_by_value(self._middle + self._half * self._to_unit(u), self._low, self._high)

    @staticmethod
    @abc.abstractmethod
    def _to_unit(u: tf.Tensor) -> tf.Tensor:
        """Map normal variables to the scale on which the bounds are -1 and 1."""

    def _mean_and_deviation(self, parameters: Any) -> tuple[tf.Tensor, tf.Tensor]:
        checks.check_shape("parameters", parameters, [*checks.static_shape(parameters)[:-1], self.num_parameters])
        mean, raw = tf.split(tf.cast(parameters, tf.float32), 2, axis=-1)
        return mean, tf.nn.softplus(raw + self._offset) + self.MIN_DEVIATION


class SquashedNormal(_ScaledNormal):
    """tanh of K independent normal variables, scaled to the bounds (Haarnoja et al. 2018, arXiv:1801.01290, C).

    Beyond `TAIL` (on the scale of [-1, 1]), where float32 can no longer resolve atanh, the probability of the tail is
    spread evenly over it.
    """

    TAIL = 0.999
    # Trapezoidal rule from -5 to 5 deviations: it resolves the bend of log |da/du| for deviations up to 30, where the
    # same number of Gauss-Hermite nodes would lie too far apart.
    _NODES = np.linspace(-5.0, 5.0, 65)
    _WEIGHTS = np.exp(-0.5 * np.square(_NODES))

    _to_unit = staticmethod(tf.tanh)

    def sample_and_log_prob(self, parameters: Any, seed: Any) -> tuple[tf.Tensor, tf.Tensor]:
        """Sample as `sample` does, with log densities that are exact and differentiable even in the tails."""
        mean, deviation = self._mean_and_deviation(parameters)
        u = mean + deviation * randomness.normal(tf.shape(mean), seed)
        density = _log_normal(u, mean, deviation) - _log_derivative_of_tanh(u)
        return self._action(u), tf.reduce_sum(density - np.log(self._half), axis=-1)

    def log_prob(self, parameters: Any, actions: Any) -> tf.Tensor:
        mean, deviation = self._mean_and_deviation(parameters)
        checks.check_shape("actions", actions, checks.static_shape(mean))
        squashed = self.features(actions)
        u = tf.atanh(tf.clip_by_value(squashed, -self.TAIL, self.TAIL))
        inside = _log_normal(u, mean, deviation) - _log_derivative_of_tanh(u)
        sign = tf.sign(squashed)  # the side of the tail, which begins at u
        tail = _log_normal_cdf(sign * (mean - u) / deviation) - math.log(1.0 - self.TAIL)
        density = tf.where(tf.abs(squashed) < self.TAIL, inside, tail)
        return tf.reduce_sum(density - np.log(self._half), axis=-1)

    def entropy(self, parameters: Any) -> tf.Tensor:
        """The entropy of the normal variable plus the mean of log |da/du|, by the trapezoidal rule."""
        mean, deviation = self._mean_and_deviation(parameters)
        nodes, weights = self._NODES.astype(np.float32), (self._WEIGHTS / self._WEIGHTS.sum()).astype(np.float32)
        u = mean[..., tf.newaxis] + deviation[..., tf.newaxis] * nodes
        slope = tf.reduce_sum(weights * _log_derivative_of_tanh(u), axis=-1) + np.log(self._half)
        return tf.reduce_sum(_entropy_of_normal(deviation) + slope, axis=-1)


class ClippedNormal(_ScaledNormal):
    """K independent normal variables, scaled to the bounds and clipped there, as in PPO implementations.

    All probability beyond a bound counts for the bound itself (arXiv:1802.07564), which gives policy gradients of lower
    variance than the density of the unclipped variable.
    """

    _to_unit = staticmethod(tf.identity)

    def log_prob(self, parameters: Any, actions: Any) -> tf.Tensor:
        """Log densities between the bounds, log probabilities at them."""
        mean, deviation = self._mean_and_deviation(parameters)
        checks.check_shape("actions", actions, checks.static_shape(mean))
        u = self.features(actions)
        inside = _log_normal(u, mean, deviation) - np.log(self._half)
        beyond = _log_normal_cdf(tf.sign(u) * (mean - u) / deviation)
        actions = tf.cast(actions, tf.float32)
        is_inside = (self._low < actions) & (actions < self._high)  # at a bound, rounding may leave |u| below 1
        return tf.reduce_sum(tf.where(is_inside, inside, beyond), axis=-1)

    def entropy(self, parameters: Any) -> tf.Tensor:
        """The entropy of the unclipped variable."""
        _, deviation = self._mean_and_deviation(parameters)
        return tf.reduce_sum(_entropy_of_normal(deviation) + np.log(self._half), axis=-1)


def distribution_of(spec: ActionSpec, initial_deviation: float = 1.0, clipped: bool = False) -> ActionDistribution:
    """The action distribution for an action space.

    Continuous actions are squashed or `clipped` to their bounds; for their initial deviation see `_ScaledNormal`.
    """
    if isinstance(spec, DiscreteSpec):
        return Categorical(spec.n)
    if isinstance(spec, MultiDiscreteSpec):
        return Joint(spec.n)
    numbers = (ClippedNormal if clipped else SquashedNormal)(spec.low, spec.high, initial_deviation)
    return Joint(spec.n, numbers) if isinstance(spec, MixedSpec) else numbers


def _log_normal(u: tf.Tensor, mean: tf.Tensor, deviation: tf.Tensor) -> tf.Tensor:
    return -0.5 * tf.square((u - mean) / deviation) - tf.math.log(deviation) - 0.5 * math.log(2 * math.pi)


def _entropy_of_normal(deviation: tf.Tensor) -> tf.Tensor:
    return tf.math.log(deviation) + 0.5 * math.log(2 * math.pi * math.e)


def _log_derivative_of_tanh(u: tf.Tensor) -> tf.Tensor:
    """log(1 - tanh(u)^2), computed without cancellation."""
    return 2.0 * (math.log(2.0) - u - tf.nn.softplus(-2.0 * u))


def _log_normal_cdf(x: tf.Tensor) -> tf.Tensor:
    """Log of the standard normal CDF, accurate even far to the left, where the CDF itself underflows to zero."""
    near, far = tf.maximum(x, -5.0), tf.minimum(x, -5.0)
    inverse = 1.0 / tf.square(far)
    series = 1.0 - inverse * (1.0 - inverse * (3.0 - inverse * 15.0))  # asymptotic
    left = -0.5 * tf.square(far) - tf.math.log(-far) - 0.5 * math.log(2 * math.pi) + tf.math.log(series)
    return tf.where(x > -5.0, tf.math.log(0.5 * tf.math.erfc(-near / math.sqrt(2))), left)
