"""The loss of PPO, from tensors (arXiv:1707.06347). Shapes: T actions, so T + 1 steps, B sequences."""

from __future__ import annotations

import math
from typing import NamedTuple

import tensorflow as tf

from seed_rl.agents.actor_critic import terms
from seed_rl.agents.actor_critic.networks import NetworkOutput
from seed_rl.agents.ppo.config import PPO
from seed_rl.rl import losses
from seed_rl.rl.distributions import ActionDistribution
from seed_rl.rl.vtrace import lambda_returns
from seed_rl.types import Unroll

_LOG_LARGEST_STEP = math.log(2.0)
"""Acting continues during the passes, so a batch's behaviour policy may be older than the weights before its first one.
Its probabilities count up to this ratio, which bounds the surrogate as rho does in IMPACT (arXiv:1912.00167)."""


class Targets(NamedTuple):
    """What the weights before the first pass give: the same in all passes. float32 [T, B]."""

    log_prob: tf.Tensor
    """Log-probability of the actions, the centre of the clipped ratio."""
    values: tf.Tensor
    """V(x_t)."""
    advantages: tf.Tensor
    """Advantages by GAE (arXiv:1506.02438); zero where no transition follows."""


def ppo_targets(actions: ActionDistribution, output: NetworkOutput, unroll: Unroll, config: PPO) -> Targets:
    """The targets of time-major unrolls [T + 1, B, ...], from the output of the network before the first pass."""
    made = terms.decisions_of(actions, output, unroll, config)
    r_t, discount_t, last_t = made.transitions
    values = made.values[:-1]
    returns = lambda_returns(discount_t, r_t, values, made.values[-1], last_t=last_t, lambda_=config.lambda_)
    return Targets(tf.maximum(made.log_pi, made.log_mu - _LOG_LARGEST_STEP), values, returns - values)


def ppo_loss(
    actions: ActionDistribution,
    output: NetworkOutput,
    unroll: Unroll,
    entropy_cost: tf.Tensor | float,
    value_unit: tf.Tensor | float,
    config: PPO,
) -> terms.ActorCriticLoss:
    """The loss of a minibatch of time-major unrolls.

    Args:
      actions: distribution over actions.
      output: output of the network, [T + 1, B, ...].
      unroll: time-major, [T + 1, B, ...]; `targets` are `Targets`.
      entropy_cost: weight of the entropy bonus now; that of the settings is only its initial value.
      value_unit: deviation of the value targets, in which errors of the value and advantages are measured.
      config: all other settings.
    """
    made = terms.decisions_of(actions, output, unroll, config)
    values, old = made.values[:-1], unroll.targets
    surrogate = terms.scaled(old.advantages, made, value_unit, config.advantage_norm)
    # Where an episode ends there is no target, nor an old value to stay near.
    targets, old_values = (
        tf.where(made.transitions.last_t, values, each) / value_unit
        for each in (old.values + old.advantages, old.values)
    )
    value_error = losses.baseline_loss(values / value_unit, targets, old_values, config.clip_value)
    parts = {
        "loss/policy": losses.clipped_ratio_loss(made.log_pi - old.log_prob, surrogate, config.clip_ratio),
        "loss/baseline": config.baseline_cost * value_error,
        "loss/entropy": entropy_cost * terms.entropy_loss(made),
    }
    total = tf.add_n([*parts.values()])
    metrics = terms.metrics_of(made, old.advantages, old.values + old.advantages, value_unit, config)
    return terms.ActorCriticLoss(total, {"loss/total": total} | parts | metrics)
