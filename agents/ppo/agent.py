"""The PPO agent, and the terms of its loss, from tensors (arXiv:1707.06347).

Shapes: T actions, so T + 1 steps, B sequences.
"""

import math
from typing import NamedTuple

import tensorflow as tf

from seed_rl.agents.actor_critic.agent import ActorCriticAgent
from seed_rl.agents.actor_critic.terms import Decisions, NetworkOutput, Terms, describe, scale
from seed_rl.agents.ppo import PPO
from seed_rl.rl import diagnostics, losses
from seed_rl.rl.vtrace import lambda_returns
from seed_rl.types import Unroll

_LOG_LARGEST_STEP = math.log(2.0)
"""Acting continues during the passes, so a batch's behaviour policy may be older than the weights before its first one.
Its probabilities count up to this ratio, which bounds the surrogate as rho does in IMPACT (arXiv:1912.00167)."""


class Targets(NamedTuple):
    """What the weights before the first pass give: the same in all passes. float32 [T, B]."""

    log_prob: tf.Tensor
    """Log-probability of the actions, the centre of the clipped ratio."""
    value_targets: tf.Tensor
    """Targets of the values."""
    advantages: tf.Tensor
    """Advantages by GAE (arXiv:1506.02438); zero where no transition follows."""


def ppo_targets(made: Decisions, config: PPO) -> Targets:
    """The targets of the decisions in a batch, seen by the weights before the first pass."""
    r_t, discount_t, last_t = made.transitions
    values = made.values[:-1]
    returns = lambda_returns(discount_t, r_t, values, made.values[-1], last_t=last_t, lambda_=config.lambda_)
    advantages = returns - values
    return Targets(tf.maximum(made.log_pi, made.log_mu - _LOG_LARGEST_STEP), values + advantages, advantages)


def ppo_terms(made: Decisions, old: Targets, config: PPO) -> Terms:
    """The terms of the loss of the decisions in a minibatch, given the old targets, all but the entropy bonus."""
    values = made.values[:-1]
    surrogate = scale(old.advantages, made, config.advantage_norm)
    targets = tf.where(made.transitions.last_t, values, old.value_targets)  # none where an episode ends
    value_error = losses.baseline_loss(values / made.value_unit, targets / made.value_unit)
    log_ratios = made.log_pi - old.log_prob
    terms = {
        "loss/policy": losses.clipped_ratio_loss(log_ratios, surrogate, config.clip_ratio),
        "loss/baseline": config.baseline_cost * value_error,
    }
    clipped = {"policy/clip_fraction": diagnostics.clip_fraction(log_ratios, made.acted, config.clip_ratio)}
    return Terms(terms, describe(made, old.advantages, surrogate, old.value_targets) | clipped)


class PPOAgent(ActorCriticAgent[PPO]):
    """Learns in several passes over each batch, with advantages and targets from the weights before the first one."""

    def targets(self, unroll: Unroll) -> Targets:
        return ppo_targets(self.review(unroll)[1], self.config)

    def terms(self, made: Decisions, outputs: NetworkOutput, unroll: Unroll) -> Terms:
        return ppo_terms(made, unroll.targets, self.config)
