"""The loss of PPO, from tensors (arXiv:1707.06347). Shapes: T actions, so T + 1 steps, B sequences."""

import math
from typing import NamedTuple

import tensorflow as tf

from seed_rl.agents.actor_critic.terms import Decisions, loss_and_metrics, scaled
from seed_rl.agents.ppo.config import PPO
from seed_rl.rl import diagnostics, losses
from seed_rl.rl.vtrace import lambda_returns

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


def ppo_targets(made: Decisions, config: PPO) -> Targets:
    """The targets of the decisions in a batch, seen by the weights before the first pass."""
    r_t, discount_t, last_t = made.transitions
    values = made.values[:-1]
    returns = lambda_returns(discount_t, r_t, values, made.values[-1], last_t=last_t, lambda_=config.lambda_)
    return Targets(tf.maximum(made.log_pi, made.log_mu - _LOG_LARGEST_STEP), values, returns - values)


def ppo_loss(made: Decisions, old: Targets, entropy_cost: tf.Tensor | float, config: PPO) -> dict[str, tf.Tensor]:
    """The loss of the decisions in a minibatch, given the old targets, and its metrics; see `loss_and_metrics`."""
    values = made.values[:-1]
    old_targets = old.values + old.advantages
    surrogate = scaled(old.advantages, made, config.advantage_norm)
    # Where an episode ends there is no target, nor an old value to stay near.
    targets, old_values = (
        tf.where(made.transitions.last_t, values, each) / made.value_unit for each in (old_targets, old.values)
    )
    value_error = losses.baseline_loss(values / made.value_unit, targets, old_values, config.clip_value)
    log_ratios = made.log_pi - old.log_prob
    parts = {
        "loss/policy": losses.clipped_ratio_loss(log_ratios, surrogate, config.clip_ratio),
        "loss/baseline": config.baseline_cost * value_error,
    }
    return loss_and_metrics(made, parts, entropy_cost, old.advantages, surrogate, old_targets, config) | {
        "policy/clip_fraction": diagnostics.clip_fraction(log_ratios, made.acted, config.clip_ratio)
    }
