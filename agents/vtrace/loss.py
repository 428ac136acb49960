"""The loss of the V-trace agent, from tensors (arXiv:1802.01561, section 4.2)."""

from __future__ import annotations

import math

import tensorflow as tf

from seed_rl.agents.actor_critic import terms
from seed_rl.agents.actor_critic.networks import NetworkOutput
from seed_rl.agents.vtrace.config import VTrace
from seed_rl.rl import diagnostics, losses
from seed_rl.rl.distributions import ActionDistribution
from seed_rl.rl.vtrace import vtrace
from seed_rl.types import Unroll


def vtrace_loss(
    actions: ActionDistribution,
    output: NetworkOutput,
    unroll: Unroll,
    entropy_cost: tf.Tensor | float,
    value_unit: tf.Tensor | float,
    config: VTrace,
) -> terms.ActorCriticLoss:
    """The loss of time-major unrolls of T + 1 steps.

    Args:
      actions: distribution over actions.
      output: output of the network, [T + 1, B, ...].
      unroll: time-major, [T + 1, B, ...]; `behaviour` is a `NetworkOutput`.
      entropy_cost: weight of the entropy bonus now; that of the settings is only its initial value.
      value_unit: deviation of the value targets, in which errors of the value and advantages are measured.
      config: all other settings.
    """
    made = terms.decisions_of(actions, output, unroll, config)
    r_t, discount_t, last_t = made.transitions
    values, log_rhos = made.values[:-1], made.log_pi - made.log_mu
    returns = vtrace(
        log_rhos,
        discount_t,
        r_t,
        values,
        made.values[-1],
        last_t=last_t,
        lambda_=config.lambda_,
        clip_rho=config.clip_rho or None,
        clip_pg_rho=config.clip_pg_rho or None,
    )
    advantages = returns.advantages if config.clip_ratio else returns.pg_advantages
    weights = terms.scaled(advantages, made, value_unit, config.advantage_norm)
    if config.clip_ratio:  # PPO's surrogate, in which the ratio itself weighs the advantages
        policy_loss = losses.clipped_ratio_loss(log_rhos, weights, config.clip_ratio)
    else:
        policy_loss = losses.policy_gradient_loss(made.log_pi, weights)
    parts = {
        "loss/policy": policy_loss,
        "loss/baseline": config.baseline_cost * losses.baseline_loss(values / value_unit, returns.vs / value_unit),
        "loss/entropy": entropy_cost * terms.entropy_loss(made),
        "loss/kl": config.kl_cost * losses.kl_loss(made.acted * made.log_mu, made.acted * made.log_pi),
    }
    total, clip = tf.add_n([*parts.values()]), config.clip_rho or math.inf
    return terms.ActorCriticLoss(
        total,
        {"loss/total": total}
        | parts
        | terms.metrics_of(made, advantages, returns.vs, value_unit, config)
        | {
            "learning/clipped_share": diagnostics.clipped_share(log_rhos, clip),
            "learning/clipped_mass": diagnostics.clipped_mass(log_rhos, clip),
        },
    )
