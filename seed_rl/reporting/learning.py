"""Detects learning problems in rows of metrics; docs/learning.md explains each diagnosis.

The thresholds separate successful runs from runs that were deliberately misconfigured; that page describes both.
"""

import math
from collections.abc import Mapping

from seed_rl.errors import Failure

_LONG_ENOUGH = 100_000  # agent steps
_ROWS = 2  # with a symptom, in all of which the return doesn't rise
_CLIPPED_MASS = 0.1
_OLD = 20.0  # updates
_UNMOVED_MASS = 1e-5
_GRADIENT_TO_CLIP = 5.0
_LARGE_ADVANTAGE = 1.0  # units of the value
_UNIFORM = 0.98
_BONUS_TO_ADVANTAGE = 0.75
_MOVED = 0.97
_CERTAIN = 0.02
_LOST = 0.25  # share of the best return, or of its distance from the first return if that is larger
_OUT_OF_BOUNDS = 1.2
_EXPLAINED_VARIANCE = 0.13
_ADVANTAGE_TO_VALUE = 0.34
_ADVANTAGE_TO_LARGEST = 0.4


class Diverged(Failure):
    """Training has failed beyond repair; the message says how, and what usually helps."""

    def __init__(self, how: str):
        super().__init__(
            f"training has diverged: {how}. Usually weights or rewards have become too large: try clipped rewards or a "
            "smaller Optimizer.learning_rate or Optimizer.clip_norm. The last checkpoint predates the divergence"
        )


class LearningMonitor:
    """Diagnoses learning problems from the successive rows of a run."""

    def __init__(self) -> None:
        self._first_return = math.nan
        self._best_return = -math.inf
        self._largest_advantage = 0.0
        self._subject, self._rows, self._since_best = "", 0, 0

    def diagnose(self, row: Mapping[str, float]) -> str:
        """Return the symptom of a row once there is something to advise on; otherwise an empty text.

        The row before must have had the same symptom, and the return must not have risen to a new best in either.
        """
        self._since_best = 0 if row.get("episode_return", math.nan) > self._best_return else self._since_best + 1
        symptom = self.symptom(row)
        subject = symptom.partition(":")[0]
        self._rows = self._rows + 1 if subject == self._subject else 1
        self._subject = subject
        return symptom if min(self._rows, self._since_best) >= _ROWS else ""

    def symptom(self, row: Mapping[str, float]) -> str:
        """Describe a symptom, its values and a remedy, e.g. "importance weights: ..."; empty if all is well.

        Symptoms whose metrics the agent does not report are not checked.
        """
        value = row.get("episode_return", math.nan)
        if math.isnan(self._first_return):
            self._first_return = value
        self._best_return = max(self._best_return, value)  # keeps the best return if the value is nan
        # An easy task is solved within the first row, whose means are mostly of values that had learned nothing.
        is_first = self._largest_advantage == 0.0
        self._largest_advantage = max(self._largest_advantage, row.get("policy/mean_abs_advantage", 0.0))
        return (
            self._of_rewards(row)
            or _of_values_out_of_bounds(row)
            or self._of_certainty(row)
            or _of_updates(row)
            or _of_uniformity(row)
            or ("" if is_first else self._of_values(row))
        )

    def _of_rewards(self, row: Mapping[str, float]) -> str:
        steps = row.get("agent_steps", 0.0)
        # The value starts at zero, and stays there until there is a reward.
        if "policy/mean_abs_advantage" not in row or self._largest_advantage > 0 or steps < _LONG_ENOUGH:
            return ""
        remedy = "explore_after = 1000, or rewards for a part of the task"
        return f"rewards: none in {steps:,.0f} agent steps, so that nothing is learned: {remedy}"

    def _of_certainty(self, row: Mapping[str, float]) -> str:
        entropy, value = row.get("learning/entropy_share", 1.0), row.get("episode_return")
        if entropy >= _CERTAIN:
            return ""
        remedy = "layer_norm = 'features', or a lower learning rate"
        if value is None:
            return f"policy: nearly deterministic ({entropy:.1%} of the entropy) before any episode ended: {remedy}"
        best = self._best_return
        if value < best - _LOST * max(best - self._first_return, abs(best)):
            return f"policy: nearly deterministic, with return {value:.4g} after {self._best_return:.4g}: {remedy}"
        return ""

    def _of_values(self, row: Mapping[str, float]) -> str:
        entropy, explained = row.get("learning/entropy_share", 1.0), row.get("learning/explained_variance", 1.0)
        if entropy >= _MOVED or explained >= _EXPLAINED_VARIANCE:
            return ""
        advantage, value = row["policy/mean_abs_advantage"], abs(row["policy/mean_value"])
        # In a solved environment there is little variance left to explain.
        if advantage <= max(_ADVANTAGE_TO_VALUE * value, _ADVANTAGE_TO_LARGEST * self._largest_advantage):
            return ""
        share = f"{max(explained, 0.0):.0%} of the variance of their targets"
        return f"values: they explain only {share}: a lower learning rate, or a higher baseline cost"


def _of_values_out_of_bounds(row: Mapping[str, float]) -> str:
    ratio = row.get("learning/value_to_bound", 0.0)
    if ratio <= _OUT_OF_BOUNDS:
        return ""
    return (
        f"values: {ratio:.3g} times what rewards and discount allow: layer_norm = 'features', or a lower learning rate"
    )


def _of_updates(row: Mapping[str, float]) -> str:
    """Check importance weights, policy changes and gradients."""
    lag = row.get("policy_lag", 0.0)
    gradient = row.get("gradient_to_clip", 0.0)
    mass = row.get("learning/clipped_mass")
    if mass is not None and mass > _CLIPPED_MASS:
        remedy = "fewer environments or larger batches" if lag > _OLD else "a lower learning rate"
        return f"importance weights: {mass:.0%} clipped, the behaviour policy is {lag:.0f} updates old: {remedy}"
    certain = row.get("learning/entropy_share", 1.0) < _CERTAIN  # and so hardly changes, as in a solved environment
    if mass is not None and mass < _UNMOVED_MASS and lag >= 1 and not certain:
        remedy = "a higher clip_norm" if gradient > _GRADIENT_TO_CLIP else "a higher learning rate"
        return f"updates: they hardly change the policy: {remedy}"
    advantage = row.get("policy/mean_abs_advantage", math.inf) / row.get("policy/value_unit", 1.0)
    if gradient > _GRADIENT_TO_CLIP and advantage > _LARGE_ADVANTAGE:
        return f"gradients: {gradient:.0f} times clip_norm: smaller rewards, or a higher clip_norm"
    return ""


def _of_uniformity(row: Mapping[str, float]) -> str:
    """Check whether the entropy bonus outweighs the advantages."""
    entropy = row.get("learning/entropy_share", 0.0)
    if entropy <= _UNIFORM:
        return ""
    # Runs of earlier versions lack the scaled one.
    advantage = row.get("policy/mean_abs_scaled_advantage", row["policy/mean_abs_advantage"])
    product = row["policy/entropy"] * advantage
    if product > 0 and -row["loss/entropy"] / product > _BONUS_TO_ADVANTAGE:
        return f"entropy: {entropy:.0%} of its maximum, its bonus outweighs advantages: a lower entropy cost"
    return ""
