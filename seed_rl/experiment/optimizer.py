"""How gradients become updates: the settings of an optimizer, and the Keras optimizer they stand for."""

from __future__ import annotations

import dataclasses
from typing import Annotated, Any, TypeAlias

import gin

from seed_rl.settings import NonNegative, OneOf, Settings, Within

Decay: TypeAlias = Annotated[float, Within(0, 0.999999)]
"""Of a moving average."""


@gin.configurable
@dataclasses.dataclass(frozen=True)
class Optimizer(Settings):
    """An optimizer, its learning-rate schedule and gradient clipping."""

    name: Annotated[str, OneOf("adam", "rmsprop")] = "adam"
    """`adam` or `rmsprop`."""
    learning_rate: NonNegative = 3e-4
    """At the start of the run; see `schedule`."""
    schedule: Annotated[str, OneOf("constant", "linear")] = "constant"
    """`constant`, or `linear`: decays to zero over the run's `total_frames`."""
    beta_1: Decay = 0.9
    """Adam only."""
    beta_2: Decay = 0.999
    """Adam only."""
    decay: Decay = 0.99
    """RMSProp only: decay rate of the moving average of squared gradients."""
    momentum: Decay = 0.0
    """RMSProp only."""
    epsilon: NonNegative = 1e-7
    """Added to the denominator: outside the root by Adam, inside by RMSProp (0.01 in IMPALA's Atari runs, whose losses
    are sums over the batch; here they are means, and gradients smaller by that factor)."""
    clip_norm: NonNegative = 0.0
    """Gradients are scaled down to this global norm; 0: never."""

    def build(self) -> Any:
        """The Keras optimizer; its learning rate is set at every update."""
        import keras  # late: actors read settings and do without it

        if self.name == "adam":
            return keras.optimizers.Adam(
                self.learning_rate, beta_1=self.beta_1, beta_2=self.beta_2, epsilon=self.epsilon
            )
        return keras.optimizers.RMSprop(
            self.learning_rate, rho=self.decay, momentum=self.momentum, epsilon=self.epsilon
        )

    def learning_rate_at(self, progress: float) -> float:
        """The learning rate after a share of the run's frames, 0 at the start; it may pass 1 at the end."""
        if self.schedule == "constant":
            return self.learning_rate
        return self.learning_rate * (1.0 - min(max(progress, 0.0), 1.0))
