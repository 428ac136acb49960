"""Settings of an optimizer, and the Keras optimizer built from them."""

from __future__ import annotations

import dataclasses
from typing import Annotated, Any, TypeAlias

import gin

from seed_rl.settings import NonNegative, OneOf, Settings, Within

Decay: TypeAlias = Annotated[float, Within(0, 0.999999)]
"""Decay rate of a moving average."""


@gin.configurable
@dataclasses.dataclass(frozen=True)
class Optimizer(Settings):
    """An optimizer, its learning-rate schedule and gradient clipping."""

    name: Annotated[str, OneOf("adam", "rmsprop")] = "adam"
    """Algorithm: `adam` or `rmsprop`."""
    learning_rate: NonNegative = 3e-4
    """Initial learning rate; see `schedule`."""
    schedule: Annotated[str, OneOf("constant", "linear")] = "constant"
    """Learning-rate schedule: `constant`, or `linear` decay to zero over the run's `total_frames`."""
    beta_1: Decay = 0.9
    """Adam only: decay rate of the moving average of gradients."""
    beta_2: Decay = 0.999
    """Adam only: decay rate of the moving average of squared gradients."""
    decay: Decay = 0.99
    """RMSProp only: decay rate of the moving average of squared gradients."""
    momentum: Decay = 0.0
    """RMSProp only: momentum."""
    epsilon: NonNegative = 1e-7
    """Constant added to the denominator: outside the square root in Adam, inside in RMSProp. (IMPALA's Atari runs use
    0.01 with losses summed over the batch; losses here are means, so gradients are smaller by that factor.)"""
    clip_norm: NonNegative = 0.0
    """Global norm to which gradients are scaled down; 0: no clipping."""

    def build(self) -> Any:
        """Build the Keras optimizer, whose learning rate is set at every update."""
        import keras  # late import: actors read settings but don't load Keras

        if self.name == "adam":
            return keras.optimizers.Adam(
                self.learning_rate, beta_1=self.beta_1, beta_2=self.beta_2, epsilon=self.epsilon
            )
        return keras.optimizers.RMSprop(
            self.learning_rate, rho=self.decay, momentum=self.momentum, epsilon=self.epsilon
        )

    def learning_rate_at(self, progress: float) -> float:
        """Return the learning rate at a share of the run's frames: 0 at the start, 1 (or slightly more) at the end."""
        if self.schedule == "constant":
            return self.learning_rate
        return self.learning_rate * (1.0 - min(max(progress, 0.0), 1.0))
