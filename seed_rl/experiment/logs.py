"""Settings of what a run writes."""

import dataclasses
from typing import Annotated

import gin

from seed_rl.settings import Count, Place, Settings, Within


@gin.configurable
@dataclasses.dataclass(frozen=True)
class Logs(Settings):
    """What a run writes into its log directory, and how often."""

    metrics_interval_s: Annotated[float, Within(0.1)] = 10.0
    """Interval between rows of metrics, seconds."""
    checkpoint_interval_s: Annotated[float, Within(0.1)] = 300.0
    """Interval between checkpoints, seconds; a run writes another one when it ends."""
    checkpoints_kept: Count = 5
    """Number of checkpoints to keep; older ones are removed."""
    keep_every_frames: Annotated[int, Within(0)] = 0
    """Interval between checkpoints that are never removed (`frames-<n>.npz`), environment frames; 0: none."""
    digest_updates: Count = 20
    """Interval between digests of all weights in the journal of a recorded run, learner updates."""
    wandb_project: Annotated[str, Place()] = ""
    """Weights & Biases project to which the run reports (needs the package `wandb`); empty: none."""
