"""How gradients become updates: the settings of an optimizer, and the Keras optimizer they stand for."""

from __future__ import annotations

import dataclasses
from typing import Any

import gin

from seed_rl.settings import Settings, check_at_least, check_one_of, check_range


@gin.configurable
@dataclasses.dataclass(frozen=True)
class Optimizer(Settings):
    """An optimizer, its learning-rate schedule and gradient clipping."""

    name: str = "adam"
    """`adam` or `rmsprop`."""
    learning_rate: float = 3e-4
    """At the start of the run; see `schedule`."""
    schedule: str = "constant"
    """`constant`, or `linear`: decays to zero over the run's `total_frames`."""
    beta_1: float = 0.9
    """Adam only."""
    beta_2: float = 0.999
    """Adam only."""
    decay: float = 0.99
    """RMSProp only: decay rate of the moving average of squared gradients."""
    momentum: float = 0.0
    """RMSProp only."""
    epsilon: float = 1e-7
    """Added to the denominator: outside the root by Adam, inside by RMSProp (0.01 in IMPALA's Atari runs, whose losses
    are sums over the batch; here they are means, and gradients smaller by that factor)."""
    clip_norm: float = 0.0
    """Gradients are scaled down to this global norm; 0: never."""

    def __post_init__(self):
        super().__post_init__()
        check_one_of(self, ("adam", "rmsprop"), "name")
        check_one_of(self, ("constant", "linear"), "schedule")
        check_at_least(self, 0, "learning_rate", "epsilon", "clip_norm")
        check_range(self, 0, 0.999999, "beta_1", "beta_2", "decay", "momentum")

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
