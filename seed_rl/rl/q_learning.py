"""Q-learning from sequences: what targets bootstrap from, quantile regression, and priorities.

Shapes: T steps, B sequences, A actions, N quantiles. All computation is in float32.
"""

from typing import Any, NamedTuple

import tensorflow as tf

from seed_rl.rl import checks


def q_of_actions(q: Any, actions: Any) -> tf.Tensor:
    """float32 [T, B]: the values in `q`, float [T, B, A], of `actions`, integer [T, B].

    Actions outside 0 .. A - 1 have the value zero.
    """
    (q,) = checks.float_arrays(3, q=q)
    checks.check_shape("actions", actions, q.shape[:2])
    # A product instead of a gather, whose gradient would be a scatter.
    return expected_values(q, tf.one_hot(actions, tf.shape(q)[-1]))


def expected_values(q: Any, policy: Any) -> tf.Tensor:
    """float32 [...]: the mean of the values `q`, float [..., A], under a policy, float [..., A]."""
    return tf.reduce_sum(tf.cast(q, tf.float32) * policy, axis=-1)


class BootstrapTerms(NamedTuple):
    """What a target takes from a step beside the target network's values; no gradient flows through it."""

    policy: tf.Tensor
    """float32 [T, B, A]: the policy under which a state is worth the expected value of its actions."""
    entropy: tf.Tensor
    """float32 [T, B]: what is added to this value."""
    bonus: tf.Tensor
    """float32 [T, B]: what is added to the reward of the action taken."""


def double_q_terms(online_q: Any) -> BootstrapTerms:
    """Terms of double Q-learning (van Hasselt et al. 2016, arXiv:1509.06461): the greedy policy of the online network's
    values, float [T, B, A]. Ties are broken in favour of the first action."""
    (online_q,) = checks.float_arrays(3, online_q=online_q)
    policy = tf.one_hot(tf.argmax(online_q, axis=-1, output_type=tf.int32), tf.shape(online_q)[-1])
    nothing = tf.zeros_like(policy[..., 0])
    return BootstrapTerms(policy, nothing, nothing)


def munchausen_terms(target_q: Any, actions: Any, alpha: float, temperature: float) -> BootstrapTerms:
    """Terms of Munchausen reinforcement learning (Vieillard et al. 2020, arXiv:2007.14430, equation 1).

        policy = softmax(Q / tau),  entropy = -tau sum_a policy(a) log policy(a)
        bonus = alpha clip(tau log policy(action), -1, 0)

    Args:
      target_q: float [T, B, A]: Q of the target network, with `ILLEGAL` if some actions are illegal.
      actions: integer [T, B]: the actions taken.
      alpha: the bonus's factor, in [0, 1].
      temperature: tau, in units of rewards.
    """
    (target_q,) = checks.float_arrays(3, target_q=target_q)
    log_policy = tf.nn.log_softmax(tf.stop_gradient(target_q) / temperature)
    policy = tf.exp(log_policy)
    entropy = -temperature * expected_values(log_policy, policy)
    taken = temperature * q_of_actions(log_policy, actions)
    return BootstrapTerms(policy, entropy, alpha * tf.clip_by_value(taken, -1.0, 0.0))


def quantile_huber_losses(quantiles: Any, targets: Any) -> tf.Tensor:
    """float32 [T, B]: the quantile Huber loss (Dabney et al. 2018, arXiv:1710.10044, equation 10 and algorithm 1).

        sum_i mean_j |tau_i - (u_ij < 0)| L(u_ij),   u_ij = target_j - theta_i,   tau_i = (i + 1/2) / N,  i from 0

    with L(u) = u^2 / 2 if |u| <= 1, else |u| - 1/2. A single quantile has half the Huber loss, L(u) / 2. No gradient
    flows through the targets, equally likely returns, float [T, B, N] like the estimates theta of the quantiles tau.
    """
    quantiles, targets = checks.float_arrays(3, quantiles=quantiles, targets=targets)
    count = quantiles.shape[2]
    u = tf.stop_gradient(targets)[:, :, tf.newaxis] - quantiles[..., tf.newaxis]  # [T, B, N, N]
    taus = (tf.range(count, dtype=tf.float32)[:, tf.newaxis] + 0.5) / count
    size = tf.abs(u)
    huber = tf.where(size <= 1.0, 0.5 * tf.square(u), size - 0.5)
    losses = tf.where(u < 0.0, 1.0 - taus, taus) * huber
    return tf.reduce_sum(tf.reduce_mean(losses, axis=3), axis=2)


def sequence_priorities(td_errors: Any, last_t: Any, eta: float = 0.9) -> tf.Tensor:
    """eta max_t |td_t| + (1 - eta) mean_t |td_t|, float32 [B].

    The mean alone would hide a single surprising step in a long sequence (R2D2, ICLR 2019, section 2.3). It ignores
    the steps without a TD error, `last_t`, bool [T, B].
    """
    (td_errors,) = checks.float_arrays(2, td_errors=td_errors)
    magnitudes = tf.abs(td_errors)
    counted = tf.reduce_sum(1.0 - tf.cast(last_t, tf.float32), axis=0)
    mean = tf.reduce_sum(magnitudes, axis=0) / tf.maximum(counted, 1.0)
    return eta * tf.reduce_max(magnitudes, axis=0) + (1.0 - eta) * mean
