"""The loss of the V-trace agent, from tensors (arXiv:1802.01561, section 4.2)."""

from __future__ import annotations

import math
from typing import NamedTuple

import tensorflow as tf

from seed_rl.agents.transitions import transitions_of
from seed_rl.agents.vtrace.config import VTrace
from seed_rl.agents.vtrace.networks import NetworkOutput
from seed_rl.rl import diagnostics, losses
from seed_rl.rl.distributions import ActionDistribution
from seed_rl.rl.vtrace import vtrace
from seed_rl.types import EnvOutput

_LOG_MAX_STEP = math.log(2.0)
"""rho of IMPACT: the behaviour policy counts up to this ratio to the target network's, which bounds the surrogate."""


class VTraceLoss(NamedTuple):
    """The loss of B unrolls and its ingredients."""

    total: tf.Tensor
    """float32 scalar."""
    metrics: dict[str, tf.Tensor]
    """float32 scalars."""
    value_targets: tf.Tensor
    """float32 [T, B]"""


def vtrace_loss(
    *,
    actions: ActionDistribution,
    target_policy: tf.Tensor,
    baseline: tf.Tensor,
    behaviour_policy: tf.Tensor,
    action: tf.Tensor,
    env_output: EnvOutput,
    entropy_cost: tf.Tensor | float,
    value_unit: tf.Tensor | float = 1.0,
    frozen: NetworkOutput | None = None,
    config: VTrace,
) -> VTraceLoss:
    """The total loss and its terms, of time-major unrolls of T + 1 steps.

    The policy at step t is paired with the reward and the discount of step t + 1: action a_t leads to r_{t+1}. The
    last step only bootstraps. A step from which no transition follows counts as zero in the means of the losses.

    Args:
      actions: distribution over actions, with P parameters.
      target_policy: float32 [T + 1, B, P], parameters of the learned policy.
      baseline: float32 [T + 1, B].
      behaviour_policy: float32 [T + 1, B, P], parameters of the policy that acted.
      action: [T + 1, B, ...].
      env_output: `reward`, `done` and `last` [T + 1, B].
      entropy_cost: weight of the entropy bonus now; that of the settings is only its initial value.
      value_unit: deviation of the value targets, in which errors of the value and advantages are measured.
      frozen: output of the target network at the same steps; None without one.
      config: all other settings.
    """
    transitions = transitions_of(env_output, config)
    acted_t = 1.0 - tf.cast(transitions.last_t, tf.float32)
    a_tm1 = action[:-1]
    target_log_prob = actions.log_prob(target_policy[:-1], a_tm1)
    behaviour_log_prob = actions.log_prob(behaviour_policy[:-1], a_tm1)

    log_rhos = target_log_prob - behaviour_log_prob
    frozen_log_prob, values = target_log_prob, baseline
    if frozen is not None:
        frozen_log_prob, values = actions.log_prob(frozen.policy[:-1], a_tm1), frozen.baseline
    returns = vtrace(
        tf.zeros_like(log_rhos) if config.gae else frozen_log_prob - behaviour_log_prob,
        transitions.discount_t,
        transitions.r_t,
        values[:-1],
        values[-1],
        last_t=transitions.last_t,
        lambda_=config.lambda_,
        clip_rho=config.clip_rho or None,
        clip_pg_rho=config.clip_pg_rho or None,
    )
    advantages = returns.advantages if config.clip_ratio else returns.pg_advantages
    if config.gae:
        advantages = returns.vs - values[:-1]
    magnitude = tf.reduce_mean(tf.abs(advantages))
    advantages /= value_unit
    if config.advantage_norm:
        advantages = losses.standardised(advantages, acted_t)
    if config.clip_ratio:
        middle = behaviour_log_prob
        if frozen is not None:
            middle = tf.stop_gradient(tf.maximum(frozen_log_prob, behaviour_log_prob - _LOG_MAX_STEP))
        policy_loss = losses.clipped_ratio_loss(target_log_prob - middle, advantages, config.clip_ratio)
    else:
        policy_loss = losses.policy_gradient_loss(target_log_prob, advantages)
    # Where an episode ends there is no target, nor a pull towards the target network.
    targets, old_values = (
        tf.where(transitions.last_t, baseline[:-1], each) / value_unit for each in (returns.vs, values[:-1])
    )
    baseline_loss = config.baseline_cost * losses.baseline_loss(
        baseline[:-1] / value_unit, targets, old_values, config.clip_value
    )
    entropies = actions.entropy(target_policy[:-1])
    negative_entropy, entropy = losses.entropy_loss(acted_t * entropies), tf.reduce_mean(entropies)
    kl = losses.kl_loss(acted_t * behaviour_log_prob, acted_t * target_log_prob)
    total = policy_loss + baseline_loss + entropy_cost * negative_entropy + config.kl_cost * kl
    metrics = {
        "loss/total": total,
        "loss/policy": policy_loss,
        "loss/baseline": baseline_loss,
        "loss/entropy": entropy_cost * negative_entropy,
        "loss/kl": config.kl_cost * kl,
        "policy/entropy": entropy,
        "policy/kl_behaviour_target": diagnostics.divergence(log_rhos),
        "policy/mean_abs_advantage": magnitude,
        "policy/mean_value": tf.reduce_mean(baseline[:-1]),
        "policy/value_unit": value_unit,
        "learning/explained_variance": diagnostics.explained_variance(baseline[:-1], returns.vs, acted_t),
    }
    if (most := actions.max_entropy(target_policy[:-1])) is not None:
        metrics["learning/entropy_share"] = tf.math.divide_no_nan(entropy, tf.reduce_mean(most))
    if bound := config.largest_value:
        metrics["learning/value_to_bound"] = tf.reduce_mean(tf.abs(baseline[:-1])) / bound
    if not config.gae:
        metrics["learning/clipped_share"] = diagnostics.clipped_share(log_rhos, config.clip_rho or math.inf)
        metrics["learning/clipped_mass"] = diagnostics.clipped_mass(log_rhos, config.clip_rho or math.inf)
    return VTraceLoss(total, metrics, returns.vs)
