"""A row of metrics read for what keeps a run from learning; docs/learning.md has a paragraph for each sentence.

The bounds lie between the values of runs that learned and of runs that went wrong on purpose, which that page tells.
"""

from __future__ import annotations

from collections.abc import Mapping

_CLIPPED_MASS = 0.1
_OLD = 20.0  # updates
_UNMOVED_MASS = 1e-5
_GRADIENT_TO_CLIP = 5.0
_UNIFORM = 0.98
_BONUS_TO_ADVANTAGE = 0.75
_MOVED = 0.97
_EXPLAINED_VARIANCE = 0.13
_ADVANTAGE_TO_VALUE = 0.34


def learning_trouble(row: Mapping[str, float]) -> str:
    """A symptom, its figures and a remedy, such as "importance weights: ..."; empty if nothing stands out.

    Args:
      row: of metrics; a symptom whose metrics an agent does not report is not looked for.
    """
    lag, gradient = row.get("policy_lag", 0.0), row.get("gradient_to_clip", 0.0)
    mass = row.get("learning/clipped_mass")
    if mass is not None and mass > _CLIPPED_MASS:
        remedy = "fewer environments or larger batches" if lag > _OLD else "a lower learning rate"
        return f"importance weights: {mass:.0%} clipped, the behaviour policy is {lag:.0f} updates old: {remedy}"
    if mass is not None and mass < _UNMOVED_MASS and lag >= 1:
        remedy = "a higher clip_norm" if gradient > _GRADIENT_TO_CLIP else "a higher learning rate"
        return f"updates: they hardly change the policy: {remedy}"
    if gradient > _GRADIENT_TO_CLIP:
        return f"gradients: {gradient:.0f} times their limit: smaller rewards, or a higher clip_norm"
    entropy, explained = row.get("learning/entropy_share"), row.get("learning/explained_variance")
    if entropy is None or explained is None:
        return ""
    if entropy > _UNIFORM and _bonus_to_advantage(row) > _BONUS_TO_ADVANTAGE:
        return f"entropy: {entropy:.0%} of its maximum, its bonus outweighs advantages: a lower entropy cost"
    advantage, value = row["policy/mean_abs_advantage"], abs(row["policy/mean_value"])
    if entropy < _MOVED and explained < _EXPLAINED_VARIANCE and advantage > _ADVANTAGE_TO_VALUE * value:
        share = f"{max(explained, 0.0):.0%} of their targets' variance"
        return f"values: they explain {share}: a lower learning rate, or a higher baseline cost"
    return ""


def _bonus_to_advantage(row: Mapping[str, float]) -> float:
    """The weight of the entropy bonus over the mean magnitude of the advantages."""
    product = row["policy/entropy"] * row["policy/mean_abs_advantage"]
    return -row["loss/entropy"] / product if product > 0 else 0.0
