"""An update as the learner sees it: which sequences its optimizer steps are made from, and what they report.

Shapes: M steps in a pass, R replicas, n sequences in a step of a replica, so B = M R n in a batch.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from seed_rl.experiment.optimizer import Optimizer
from seed_rl.learner.peers import Peers


class Update(NamedTuple):
    """The outcome of an update."""

    metrics: dict[str, float]
    """The agent's metrics, `gradient_norm` (before clipping), `gradient_to_clip` (its ratio to `clip_norm`, where that
    is set) and `learning_rate`; for the second and later groups of variables with the group's name as a prefix.
    Means over the optimizer steps that were applied, or over all if none was; maxima where the agent says so."""
    priorities: np.ndarray
    """Priorities of this process's sequences, float32 [B]; empty if the agent gives none."""
    optimizer_steps: int
    """Number of steps applied: passes x minibatches, fewer if the agent ends an update early or steps are skipped."""
    left_out: int
    """Number of steps skipped because of NaN or Inf gradients; `metrics` cover the others."""


class Report(NamedTuple):
    """The report of an optimizer step; of several, with a leading axis in each field."""

    finite: tf.Tensor
    """Whether all gradients are finite, bool []; otherwise the step is skipped."""
    ended: tf.Tensor
    """Whether the agent had learned enough before this step, bool []; then this step and later ones are not applied."""
    means: dict[str, tf.Tensor]
    """The agent's metrics by name, float32 []."""
    maxima: dict[str, tf.Tensor]
    """Metrics by name, float32 []; their maximum over steps is reported."""
    norms: tf.Tensor
    """Gradient norm of each group of variables, float32 [groups]."""
    priorities: tf.Tensor
    """float32 [R n]: of n sequences of each replica; [0] if the agent gives none."""


def update_of(
    passes: Sequence[Report], priorities: np.ndarray, prefixed: Mapping[str, Optimizer], rates: np.ndarray
) -> Update:
    """Summarise the optimizer steps of an update.

    Args:
      passes: reports of each pass, NumPy arrays [steps, ...].
      priorities: priorities of this process's sequences, float32 [B].
      prefixed: optimizer settings of each group of variables by the prefix of its metrics.
      rates: learning rate of each group, float32 [groups].
    """
    steps = tf.nest.map_structure(lambda *arrays: np.concatenate(arrays), *passes)
    applied, metrics = steps.finite & ~steps.ended, {}
    shown = applied if applied.any() else steps.finite
    if shown.any():
        metrics = {name: float(np.mean(values[shown])) for name, values in steps.means.items()}
        metrics |= {name: float(np.max(values[shown])) for name, values in steps.maxima.items()}
        for (prefix, settings), norms, rate in zip(prefixed.items(), steps.norms[shown].T, rates, strict=True):
            metrics |= {f"{prefix}gradient_norm": float(np.mean(norms)), f"{prefix}learning_rate": float(rate)}
            if settings.clip_norm:
                metrics[f"{prefix}gradient_to_clip"] = float(np.mean(norms)) / settings.clip_norm
    return Update(metrics, priorities, int(np.sum(applied)), int(np.sum(~steps.finite)))


def draw(count: int, sequences: int, generator: np.random.Generator) -> np.ndarray:
    """The sequences of each of `count` steps among the `sequences` of a replica: int32 [M, n], all of them once."""
    if count == 1:
        return np.arange(sequences, dtype=np.int32)[None]
    return generator.permutation(sequences).astype(np.int32).reshape(count, -1)


def draw_seeds(count: int, generator: np.random.Generator, replicas: int, peers: Peers) -> np.ndarray:
    """The seeds of each of `count` steps, int32 [M, 2], to which each replica of this learner adds its number."""
    seeds = generator.integers(2**31 - replicas * peers.count, size=(count, 2), dtype=np.int32)
    return seeds + np.int32(replicas * peers.index)


def in_order(drawn: np.ndarray, values: np.ndarray, replicas: int) -> np.ndarray:
    """Return values [M, R n] of the drawn sequences in the order of the batch: [B].

    The result is empty if there are no values, [M, 0], or if the pass ended before its last step.
    """
    if not values.size or len(values) < len(drawn):
        return np.zeros(0, np.float32)
    of_replicas = np.concatenate([step.reshape(replicas, -1) for step in values], axis=1)
    return of_replicas[:, np.argsort(drawn.ravel())].ravel()
