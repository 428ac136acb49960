"""The settings of opponents in games of several players, as far as an experiment knows them."""

from __future__ import annotations

import abc
import dataclasses
from typing import TYPE_CHECKING

from seed_rl.settings import Settings

if TYPE_CHECKING:
    from seed_rl.experiment.experiment import Experiment
    from seed_rl.inference.players import Players

ENTRY_POINTS = "seed_rl.opponents"
"""The entry-point group in which packages declare `Opponents` classes, so that their runs can be read again."""


@dataclasses.dataclass(frozen=True)
class Opponents(Settings, abc.ABC):
    """Base class of settings with which some rows of the environments are not played by the learning agent."""

    @abc.abstractmethod
    def build(self, experiment: Experiment, logdir: str, num_devices: int) -> Players:
        """Build what plays in a run with a log directory and a number of inference devices. Imports TensorFlow.

        Raises:
          OSError: the log directory can't be used.
        """
