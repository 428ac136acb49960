"""Settings of an optimizer, and the Keras optimizer built from them."""

import dataclasses
import math
from collections.abc import Sequence
from typing import Annotated, Any, TypeAlias

import gin

from seed_rl.own_classes import OneOfOrOwn, build_own_class
from seed_rl.settings import NonNegative, OneOf, Settings, Within

Decay: TypeAlias = Annotated[float, Within(0, 0.999999)]
"""Decay rate of a moving average."""


@gin.configurable
@dataclasses.dataclass(frozen=True)
class Optimizer(Settings):
    """An optimizer, its learning-rate schedule and gradient clipping."""

    name: Annotated[str, OneOfOrOwn("adam", "rmsprop")] = "adam"
    """Algorithm: `adam`, `rmsprop`, or `module:Class`, a Keras optimizer such as `keras.optimizers:Lion`, whose class
    gets the learning rate and the weight decay."""
    learning_rate: NonNegative = 3e-4
    """Initial learning rate; see `schedule`."""
    schedule: Annotated[str, OneOf("constant", "linear", "cosine")] = "constant"
    """Learning-rate schedule: `constant`, or a `linear` or `cosine` decay to zero over the run's `total_frames`."""
    decay_start: Annotated[float, Within(0, 0.999999)] = 0.0
    """Share of the run's `total_frames` for which the learning rate stays constant before it decays."""
    beta_1: Decay = 0.9
    """Adam only: decay rate of the moving average of gradients."""
    beta_2: Decay = 0.999
    """Adam only: decay rate of the moving average of squared gradients."""
    decay: Decay = 0.99
    """RMSProp only: decay rate of the moving average of squared gradients."""
    momentum: Decay = 0.0
    """RMSProp only: momentum."""
    epsilon: Annotated[float, Within(1e-30)] = 1e-7
    """Constant added to the denominator: outside the square root in Adam, inside in RMSProp. (IMPALA's Atari runs use
    0.01 with losses summed over the batch; losses here are means, so gradients are smaller by that factor.)"""
    clip_norm: NonNegative = 0.0
    """Global norm to which gradients are scaled down; 0: no clipping."""
    weight_decay: NonNegative = 0.0
    """Decoupled weight decay: each step also shrinks weights by this times the learning rate. With `adam`, this is
    AdamW (arXiv:1711.05101). Biases, scales of layer normalisation and all other variables of rank 0 or 1 don't decay.
    """

    def build(self, variables: Sequence[Any]) -> Any:
        """Build the Keras optimizer of some Keras variables; its learning rate is set at every update.

        Raise CannotAct if the class that `name` names can't be imported, or doesn't take these arguments.
        """
        import keras  # late import: actors read settings but don't load Keras

        kinds, rate = keras.optimizers, float(self.learning_rate)
        shared: dict[str, Any] = {"learning_rate": rate, "weight_decay": self.weight_decay or None}
        if self.name == "adam":
            optimizer = kinds.Adam(beta_1=self.beta_1, beta_2=self.beta_2, epsilon=self.epsilon, **shared)
        elif self.name == "rmsprop":
            optimizer = kinds.RMSprop(rho=self.decay, momentum=self.momentum, epsilon=self.epsilon, **shared)
        else:
            optimizer = build_own_class("Optimizer.name", self.name, kinds.Optimizer, **shared)
        optimizer.exclude_from_weight_decay([variable for variable in variables if len(variable.shape) < 2])
        optimizer.build(list(variables))
        return optimizer

    def learning_rate_at(self, progress: float) -> float:
        """Return the learning rate at a share of the run's frames: 0 at the start, 1 (or slightly more) at the end."""
        progress = min(max((progress - self.decay_start) / (1.0 - self.decay_start), 0.0), 1.0)
        if self.schedule == "linear":
            return self.learning_rate * (1.0 - progress)
        if self.schedule == "cosine":
            return self.learning_rate * (1.0 + math.cos(math.pi * progress)) / 2.0
        return self.learning_rate
