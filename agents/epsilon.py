"""The share of random actions that falls in the course of a run, for agents that explore epsilon-greedily."""

import keras


class FallingEpsilon:
    """A probability that falls linearly over the first learner updates of a run; a variable, which checkpoints keep."""

    def __init__(self, start: float, end: float, updates: int):
        """The probability before the first update, the one after `updates` of them, and this number, at least 1."""
        self._start, self._end, self._updates = start, end, updates
        self.variable = keras.Variable(start, trainable=False, dtype="float32", name="epsilon")
        """The present probability, a float32 scalar."""

    def after_update(self, learner_updates: int) -> None:
        """Set the probability that holds after learner update number `learner_updates` (from 1)."""
        done = min(learner_updates / self._updates, 1.0)
        self.variable.assign(self._start + done * (self._end - self._start))
