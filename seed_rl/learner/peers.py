"""The seam for several learners: what a learner does with the others that train the same model, if it has any.

`Peers` is what a lone learner has, so every method takes the short way. Whoever connects several learners overrides
all of it, and hands its own to `runs.run.Run`. No TensorFlow here: a run has its peers before that is loaded.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from seed_rl.experiment import Experiment
from seed_rl.system.signals import Stop

if TYPE_CHECKING:
    from seed_rl.learner.progress import Counters
    from seed_rl.learner.sources import Batch, Source

POLL_SECONDS = 0.2
"""Time that a learner without a batch waits for one before it looks whether the run is to end."""


class Round(NamedTuple):
    """What a learner does next."""

    batch: Batch | None
    """This learner's part of the batch to learn from; None if there is none yet."""
    leave: bool
    """Whether to end the run."""
    env_frames: int
    """Frames learned from before this batch, equal for all learners, because schedules follow them."""
    postponed: bool = False
    """Whether this learner has a batch and waits for others: its frames count when all learn from it."""


class Peers:
    """The learners of a run, as one of them sees them; all call the same methods in the same order."""

    @property
    def index(self) -> int:
        """Number of this learner; learner 0 writes the checkpoints."""
        return 0

    @property
    def count(self) -> int:
        """Number of learners, each with its own actors and an equal part of every batch."""
        return 1

    def connect(self, experiment: Experiment, stop: Stop) -> Peers | None:
        """Wait for the other learners, before TensorFlow makes its devices.

        Returns:
          The connected peers; None if `stop` was set.

        Raises:
          AddressError: this learner can't listen for the others.
          ConfigError: the learners differ in their settings.
        """
        return self

    def compare(self, own: Mapping[str, Any]) -> None:
        """Check that all learners have the same settings, JSON values by name.

        Raises:
          ConfigError: they differ.
        """

    def share(self, variables: Mapping[str, Any], counters: Counters) -> None:
        """Set Keras variables and counters to those of learner 0."""

    def mean(self, nest: Any) -> Any:
        """Average a nest of float32 tensors over learners, in a function that is being traced."""
        return nest

    def maximum(self, nest: Any) -> Any:
        """Return the maxima over learners of a nest of float32 tensors, in a function that is being traced."""
        return nest

    def explained(self) -> contextlib.AbstractContextManager[None]:
        """Return a context in which the loss of another learner is an error of one line."""
        return contextlib.nullcontext()

    def next(self, source: Source, leave: bool, env_frames: int) -> Round:
        """Agree on what to do next.

        Args:
          source: batches of this learner.
          leave: whether this learner is about to end, and takes no further batch.
          env_frames: frames that this learner has counted as learned from.
        """
        return Round(None if leave else source.next(POLL_SECONDS), leave, env_frames)

    def leave(self) -> None:
        """Tell the others that this learner ends, unless all have agreed to leave."""


ALONE = Peers()
"""The peers of a lone learner."""
