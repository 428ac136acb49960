"""What the losses of V-trace and PPO share, from tensors.

Shapes: T actions, so T + 1 steps with the one that bootstraps, B sequences. The policy at step t is paired with the
reward and the discount of step t + 1: action a_t leads to r_{t+1}. A step in which nothing was decided counts as zero
in the means of losses, entropies and divergences, which are then the same on any number of devices.
"""

from typing import Any, NamedTuple

import tensorflow as tf

from seed_rl.agents.actor_critic.config import ActorCriticConfig
from seed_rl.agents.transitions import Transitions, transitions_of
from seed_rl.rl import diagnostics, losses, masks
from seed_rl.rl.distributions import ActionDistribution
from seed_rl.types import Unroll


class NetworkOutput(NamedTuple):
    """What the network outputs at each of T steps of B environments."""

    policy: tf.Tensor
    """float32 [T, B, P]: parameters of the distribution over actions, such as logits."""
    baseline: tf.Tensor
    """float32 [T, B]: the value estimate."""
    more: Any = ()
    """Nest [T, B, ...]: outputs of a subclass's own heads, for its own terms of the loss; not stored while acting."""


class Decisions(NamedTuple):
    """The T actions of B unrolls, seen by the learned policy and by the policy that acted."""

    transitions: Transitions
    """The outcomes of the actions."""
    acted: tf.Tensor
    """float32 [T, B]: 1, or 0 where nothing was decided: an episode ends, or an action was held."""
    log_pi: tf.Tensor
    """float32 [T, B]: log-probability under the learned policy."""
    log_mu: tf.Tensor
    """float32 [T, B]: log-probability under the policy that acted."""
    entropies: tf.Tensor
    """float32 [T, B]: entropy of the learned policy, nats."""
    max_entropies: tf.Tensor | None
    """float32 [T, B]: entropy of equally likely legal actions, nats; None for continuous actions."""
    values: tf.Tensor
    """float32 [T + 1, B]: the learned value, with the one that bootstraps."""
    value_unit: tf.Tensor | float
    """The unit in which values and advantages are learned: with `value_norm` the deviation of the value targets."""


class Terms(NamedTuple):
    """What a loss consists of: float32 scalars by name."""

    losses: dict[str, tf.Tensor]
    """Terms, which are added up, by the name of their metric, such as `loss/policy`."""
    metrics: dict[str, tf.Tensor]
    """Further metrics."""


def decisions_of(
    actions: ActionDistribution, outputs: NetworkOutput, unroll: Unroll, value_unit: Any, config: ActorCriticConfig
) -> Decisions:
    """The decisions in time-major unrolls [T + 1, B, ...], given the network's outputs for all their steps."""
    transitions = transitions_of(unroll.env_output, config)
    policy, acting, action = outputs.policy[:-1], unroll.behaviour.policy[:-1], unroll.action[:-1]
    undecided = transitions.last_t
    if config.explore_after:
        ruled_out = masks.is_legal(policy) & ~masks.is_legal(acting)  # where the action was held, all others
        policy = masks.mask_illegal(policy, ~ruled_out)
        undecided |= tf.reduce_any(ruled_out, axis=-1)
    return Decisions(
        transitions=transitions,
        acted=1.0 - tf.cast(undecided, tf.float32),
        log_pi=actions.log_prob(policy, action),
        log_mu=actions.log_prob(acting, action),
        entropies=actions.entropy(policy),
        max_entropies=actions.max_entropy(policy),
        values=outputs.baseline,
        value_unit=value_unit,
    )


def scale(advantages: tf.Tensor, made: Decisions, norm: bool) -> tf.Tensor:
    """Advantages [T, B] in units of the value, or standardised."""
    advantages /= made.value_unit
    return losses.standardise(advantages, made.acted) if norm else advantages


def describe(made: Decisions, advantages: Any, scaled_advantages: Any, value_targets: Any) -> dict[str, tf.Tensor]:
    """The metrics of what V-trace and PPO learn from, float32 [T, B]: advantages, also by `scale`, and targets."""
    return {
        "policy/mean_abs_advantage": tf.reduce_mean(tf.abs(advantages)),
        "policy/mean_abs_scaled_advantage": tf.reduce_mean(tf.abs(scaled_advantages)),
        "learning/explained_variance": diagnostics.explained_variance(made.values[:-1], value_targets, made.acted),
    }


def add_up(terms: Terms, made: Decisions, entropy_cost: Any, config: ActorCriticConfig) -> dict[str, tf.Tensor]:
    """The loss, `loss/total`, its terms with the entropy bonus, whose weight is now `entropy_cost`, and all metrics."""
    values, entropy = made.values[:-1], tf.reduce_mean(made.acted * made.entropies)
    parts = {**terms.losses, "loss/entropy": -entropy_cost * entropy}
    metrics = {
        **parts,
        **terms.metrics,
        "loss/total": tf.add_n([*parts.values()]),
        "policy/entropy": entropy,
        "policy/kl_behaviour_target": diagnostics.divergence(made.log_pi - made.log_mu, made.acted),
        "policy/mean_value": tf.reduce_mean(values),
        "policy/value_unit": made.value_unit,
    }
    if made.max_entropies is not None:
        most = tf.reduce_mean(made.acted * made.max_entropies)
        metrics["learning/entropy_share"] = tf.math.divide_no_nan(entropy, most)
    if config.max_abs_reward and config.discount < 1:
        largest_return = config.max_abs_reward / (1.0 - config.discount)
        metrics["learning/value_to_bound"] = tf.reduce_mean(tf.abs(values)) / largest_return
    return metrics
