"""Detects learning problems in rows of metrics; docs/learning.md explains each diagnosis.

The thresholds separate successful runs from runs that were deliberately misconfigured; that page describes both.
"""

import math
from collections.abc import Iterator, Mapping

from seed_rl.errors import Failure

_LONG_ENOUGH = 100_000  # agent steps
_ROWS = 2  # with a symptom, in all of which the return doesn't rise
_SECONDS = 15.0  # without a rise, where rows are closer together
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
    """Diagnoses learning problems from the successive rows of a run.

    A run that already `explores` without rewards isn't advised to. With `opponents`, returns aren't compared: they also
    depend on how strong the opponents are.
    """

    def __init__(self, explores: bool = False, opponents: bool = False) -> None:
        self._explores, self._opponents = explores, opponents
        self._said = ""
        self._first_return = math.nan
        self._best_return = -math.inf
        self._largest_advantage = 0.0
        self._subject, self._rows, self._since_best = "", 0, 0
        self._best_at = math.nan  # seconds

    def diagnose(self, row: Mapping[str, float]) -> str:
        """Return the symptom of a row once there is something to advise on; otherwise an empty text.

        The row before must have had the same symptom, and the return must not have risen to a new best in either, nor
        for a while. A row without an update says nothing new.
        """
        if not row.get("updates_per_second", 1.0):
            return self._said
        rises = row.get("episode_return", math.nan) > self._best_return
        self._since_best = 0 if rises else self._since_best + 1
        if rises or math.isnan(self._best_at):
            self._best_at = row["seconds"]
        symptom = self.symptom(row)
        subject = symptom.partition(":")[0]
        self._rows = self._rows + 1 if subject == self._subject else 1
        self._subject = subject
        is_settled = min(self._rows, self._since_best) >= _ROWS and row["seconds"] - self._best_at >= _SECONDS
        self._said = symptom if is_settled else ""
        return self._said

    def symptom(self, row: Mapping[str, float]) -> str:
        """Describe a symptom, as far as there are metrics for it, its values and a remedy; empty if all is well."""
        value = row.get("episode_return", math.nan)
        if math.isnan(self._first_return):
            self._first_return = value
        self._best_return = max(self._best_return, value)  # keeps the best return if the value is nan
        # An easy task is solved within the first row, whose means are mostly of values that had learned nothing.
        is_first = self._largest_advantage == 0.0
        self._largest_advantage = max(self._largest_advantage, row.get("policy/mean_abs_advantage", 0.0))
        return next(self._symptoms(row, is_first), "")

    def _symptoms(self, row: Mapping[str, float], is_first: bool) -> Iterator[str]:
        """Yield the symptoms of a row, the worst first. Comparisons with nan, a metric that is missing, are false."""
        entropy = row.get("learning/entropy_share", math.nan)
        advantage = row.get("policy/mean_abs_advantage", math.nan)
        is_certain = entropy < _CERTAIN  # and so hardly changes, as in a solved environment
        steps = row.get("agent_steps", 0.0)
        # The value starts at zero, and stays there until there is a reward.
        if advantage == self._largest_advantage == 0.0 and steps >= _LONG_ENOUGH:
            explore = "" if self._explores else "explore_after = 1000 (with discrete actions), or "
            remedy = f"{explore}rewards for a part of the task"
            yield f"rewards: none in {steps:,.0f} agent steps, so that nothing is learned: {remedy}"

        remedy = "layer_norm = 'features', or a lower learning rate"
        if (ratio := row.get("learning/value_to_bound", math.nan)) > _OUT_OF_BOUNDS:
            yield f"values: {ratio:.3g} times what rewards and discount allow: {remedy}"

        value, best = row.get("episode_return", math.nan), self._best_return
        if is_certain and "episode_return" not in row:
            yield f"policy: nearly deterministic ({entropy:.1%} of the entropy) before any episode ended: {remedy}"
        elif is_certain and not self._opponents and value < best - _LOST * max(best - self._first_return, abs(best)):
            yield f"policy: nearly deterministic, with return {value:.4g} after {best:.4g}: {remedy}"

        lag, gradient = row.get("policy_lag", 0.0), row.get("gradient_to_clip", 0.0)
        mass = row.get("learning/clipped_mass", math.nan)
        if mass > _CLIPPED_MASS:
            remedy = "fewer environments or larger batches" if lag > _OLD else "a lower learning rate"
            yield f"importance weights: {mass:.0%} clipped, the behaviour policy is {lag:.0f} updates old: {remedy}"
        if mass < _UNMOVED_MASS and lag >= 1 and not is_certain:
            remedy = "a higher clip_norm" if gradient > _GRADIENT_TO_CLIP else "a higher learning rate"
            yield f"updates: they hardly change the policy: {remedy}"
        is_small = advantage / row.get("policy/value_unit", 1.0) <= _LARGE_ADVANTAGE
        if gradient > _GRADIENT_TO_CLIP and not is_small:
            yield f"gradients: {gradient:.0f} times clip_norm: smaller rewards, or a higher clip_norm"

        if entropy > _UNIFORM:
            # Runs of earlier versions lack the scaled one.
            product = row.get("policy/entropy", math.nan) * row.get("policy/mean_abs_scaled_advantage", advantage)
            if product > 0 and -row.get("loss/entropy", math.nan) / product > _BONUS_TO_ADVANTAGE:
                yield f"entropy: {entropy:.0%} of its maximum, its bonus outweighs advantages: a lower entropy cost"

        explained = row.get("learning/explained_variance", math.nan)
        if entropy < _MOVED and explained < _EXPLAINED_VARIANCE and not is_first:
            value_size = abs(row.get("policy/mean_value", math.nan))
            # In a solved environment there is little variance left to explain.
            if advantage > max(_ADVANTAGE_TO_VALUE * value_size, _ADVANTAGE_TO_LARGEST * self._largest_advantage):
                share = f"{max(explained, 0.0):.0%} of the variance of their targets"
                yield f"values: they explain only {share}: a lower learning rate, or a higher baseline cost"
