"""The V-trace agent, and the terms of its loss, from tensors (arXiv:1802.01561, section 4.2)."""

import math

import tensorflow as tf

from seed_rl.agents.actor_critic.agent import ActorCriticAgent
from seed_rl.agents.actor_critic.terms import Decisions, NetworkOutput, Terms, describe, scale
from seed_rl.agents.vtrace import VTrace
from seed_rl.rl import diagnostics, losses
from seed_rl.rl.vtrace import vtrace
from seed_rl.types import Unroll


class VTraceAgent(ActorCriticAgent[VTrace]):
    """Learns with V-trace from unrolls of a slightly older policy."""

    def terms(self, made: Decisions, outputs: NetworkOutput, unroll: Unroll) -> Terms:
        return vtrace_terms(made, self.config)


def vtrace_terms(made: Decisions, config: VTrace) -> Terms:
    """The terms of the loss of the decisions in a batch, all but the entropy bonus."""
    r_t, discount_t, last_t = made.transitions
    values, log_rhos = made.values[:-1], made.log_pi - made.log_mu
    clips = {"clip_rho": config.clip_rho or None, "clip_pg_rho": config.clip_pg_rho or None}
    returns = vtrace(log_rhos, discount_t, r_t, values, made.values[-1], last_t=last_t, lambda_=config.lambda_, **clips)
    advantages = returns.advantages if config.clip_ratio else returns.pg_advantages
    weights = scale(advantages, made, config.advantage_norm)
    if config.clip_ratio:  # PPO's surrogate, in which the ratio itself weighs the advantages
        policy_loss = losses.clipped_ratio_loss(log_rhos, weights, config.clip_ratio)
    else:
        policy_loss = -tf.reduce_mean(made.log_pi * weights)
    value_error = losses.baseline_loss(values / made.value_unit, returns.vs / made.value_unit)
    terms = {
        "loss/policy": policy_loss,
        "loss/baseline": config.baseline_cost * value_error,
        "loss/kl": config.kl_cost * tf.reduce_mean(made.acted * (made.log_mu - made.log_pi)),
    }
    metrics = {
        "learning/clipped_share": diagnostics.clipped_share(log_rhos, made.acted, config.clip_rho or math.inf),
        "learning/clipped_mass": diagnostics.clipped_mass(log_rhos, made.acted),
    }
    return Terms(terms, describe(made, advantages, weights, returns.vs) | metrics)
