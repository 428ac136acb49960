"""What an optimizer step and an update report."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from seed_rl.experiment.optimizer import Optimizer


class StepResult(NamedTuple):
    """The result of an optimizer step; of several, with a leading axis in each field."""

    finite: tf.Tensor
    """Whether all gradients are finite, bool []; otherwise the step is skipped."""
    means: dict[str, tf.Tensor]
    """The agent's metrics by name, float32 []."""
    maxima: dict[str, tf.Tensor]
    """Metrics by name, float32 []; their maximum over steps is reported."""
    norms: tf.Tensor
    """Gradient norm of each group of variables, float32 [groups]."""
    priorities: tf.Tensor
    """float32 [R n]: of n sequences of each of R replicas; [0] if the agent gives none."""


class UpdateResult(NamedTuple):
    """The result of an update, of one or several optimizer steps."""

    metrics: dict[str, float]
    """The agent's metrics, `gradient_norm` (before clipping), `gradient_to_clip` (its ratio to `clip_norm`, where that
    is set) and `learning_rate`; for the second and later groups of variables with the group's name as a prefix.
    Means, or maxima where the agent names them, over the optimizer steps that were applied; empty if none was."""
    priorities: np.ndarray
    """Priorities of this process's sequences, float32 [B]; empty if the agent gives none."""
    optimizer_steps: int
    """Number of steps applied: passes x minibatches, fewer if steps are skipped."""
    left_out: int
    """Number of steps skipped because of NaN or Inf gradients; `metrics` cover the others."""


def update_result(
    passes: Sequence[StepResult], priorities: np.ndarray, optimizers: Mapping[str, Optimizer], rates: np.ndarray
) -> UpdateResult:
    """Summarise the optimizer steps of an update.

    Args:
      passes: steps of each pass, NumPy arrays [steps, ...].
      priorities: priorities of this process's sequences, float32 [B].
      optimizers: settings of each group of variables.
      rates: learning rate of each group, float32 [groups].
    """
    steps = tf.nest.map_structure(lambda *arrays: np.concatenate(arrays), *passes)
    applied, metrics = steps.finite, {}
    if applied.any():
        metrics = {name: float(np.mean(values[applied])) for name, values in steps.means.items()}
        metrics |= {name: float(np.max(values[applied])) for name, values in steps.maxima.items()}
        prefixes = ["", *(f"{group}/" for group in [*optimizers][1:])]
        groups = zip(prefixes, optimizers.values(), steps.norms[applied].T, rates, strict=True)
        for prefix, settings, norms, rate in groups:
            metrics |= {f"{prefix}gradient_norm": float(np.mean(norms)), f"{prefix}learning_rate": float(rate)}
            if settings.clip_norm:
                metrics[f"{prefix}gradient_to_clip"] = float(np.mean(norms)) / settings.clip_norm
    return UpdateResult(metrics, priorities, int(np.sum(applied)), int(np.sum(~applied)))
