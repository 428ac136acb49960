"""A row of metrics read for what keeps a run from learning; docs/learning.md has a paragraph for each sentence.

The bounds lie between the values of runs that learned and of runs that went wrong on purpose, which that page tells.
"""

from __future__ import annotations

from collections.abc import Mapping

_CLIPPED_MASS = 0.1
_OLD = 20.0  # updates
_UNMOVED_MASS = 1e-5
_GRADIENT_TO_CLIP = 4.0
_BONUS_TO_ADVANTAGE = 0.75
_UNIFORM = 0.98
_MOVED = 0.97
_CERTAIN = 0.02
_EXPLAINED_VARIANCE = 0.05


def learning_trouble(row: Mapping[str, float]) -> str:
    """A symptom, its figures and a remedy, such as "importance weights: ..."; empty if nothing stands out.

    Args:
      row: of metrics; a symptom whose metrics an agent does not report is not looked for.
    """
    lag, entropy = row.get("policy_lag", 0.0), row.get("learning/entropy_share", 0.5)
    mass, gradient = row.get("learning/clipped_mass"), row.get("gradient_to_clip", 0.0)
    if mass is not None and mass > _CLIPPED_MASS:
        remedy = "fewer environments or larger batches" if lag > _OLD else "a lower learning rate"
        return f"importance weights: {mass:.0%} clipped, the behaviour policy is {lag:.0f} updates old: {remedy}"
    if mass is not None and mass < _UNMOVED_MASS and lag >= 1:
        remedy = "a higher clip_norm" if gradient > _GRADIENT_TO_CLIP else "a higher learning rate"
        return f"updates: they hardly change the policy: {remedy}"
    if gradient > _GRADIENT_TO_CLIP:
        return f"gradients: {gradient:.0f} times their limit: smaller rewards, or a higher clip_norm"
    if entropy > _UNIFORM and _bonus_to_advantage(row) > _BONUS_TO_ADVANTAGE:
        return f"entropy: {entropy:.0%} of its maximum, its bonus outweighs advantages: a lower entropy cost"
    if entropy < _CERTAIN:
        return f"entropy: {entropy:.1%} of its maximum: if returns are low, a higher entropy cost"
    explained = row.get("learning/explained_variance", 1.0)
    if entropy < _UNIFORM and explained < _EXPLAINED_VARIANCE and "learning/entropy_share" in row:
        return f"values: they explain {max(explained, 0.0):.0%} of their targets' variance: see how they are learned"
    return ""


def _bonus_to_advantage(row: Mapping[str, float]) -> float:
    """The weight of the entropy bonus over the mean magnitude of the advantages; 0 if unknown."""
    entropy, advantage = row.get("policy/entropy", 0.0), row.get("policy/mean_abs_advantage", 0.0)
    return -row.get("loss/entropy", 0.0) / (entropy * advantage) if entropy * advantage > 0 else 0.0
