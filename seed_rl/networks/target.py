"""Target networks: frozen copies that track the weights of a model."""

from typing import Any

import tensorflow as tf


class TargetNetwork:
    """A copy of a model's weights, updated every `period` learner updates.

        target <- target + rate (online - target)

    A rate of 1 copies the weights (Mnih et al. 2015); a small rate at every update is Polyak averaging (Lillicrap et
    al. 2016, arXiv:1509.02971). Non-trainable variables, such as running statistics, are always copied.
    """

    def __init__(self, online: Any, frozen: Any, period: int = 1, rate: float = 1.0):
        """Make `frozen`, a second model of the architecture of `online`, the copy; `rate` is in (0, 1]."""
        self.model, self._online = frozen, online
        self._period, self._rate = period, rate
        self.copy()

    def copy(self) -> None:
        """Make the weights equal."""
        self._follow(1.0)

    def after_update(self, learner_updates: int) -> None:
        """Update the copy if it is due; call this after learner update number `learner_updates` (from 1)."""
        if learner_updates % self._period == 0:
            self._follow(self._rate)

    @tf.function(autograph=False)
    def _follow(self, rate: float) -> None:
        for target, online in zip(self.model.variables, self._online.variables, strict=True):
            copied = rate == 1.0 or not online.trainable
            target.assign(online.value if copied else target.value + rate * (online.value - target.value))
