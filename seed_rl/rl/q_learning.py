"""Q-learning from sequences: double Q-learning, n-step TD errors with rescaled values, sequence losses and priorities.

Shapes: T steps, B sequences, A actions. All computation is in float32.
"""

from typing import Any

import tensorflow as tf

from seed_rl.rl import checks
from seed_rl.rl.n_step import n_step_returns
from seed_rl.rl.value_rescaling import ValueTransform


def q_of_actions(q: Any, actions: Any) -> tf.Tensor:
    """float32 [T, B]: the values in `q`, float [T, B, A], of `actions`, integer [T, B].

    Actions outside 0 .. A - 1 have the value zero.
    """
    checks.check_rank("q", q, 3)
    checks.check_shape("actions", actions, checks.static_shape(q)[:2])
    q = tf.cast(q, tf.float32)
    # A product instead of a gather, whose gradient would be a scatter.
    return tf.reduce_sum(q * tf.one_hot(actions, tf.shape(q)[-1]), axis=-1)


def double_q_values(online_q: Any, target_q: Any) -> tf.Tensor:
    """float32 [T, B]: the target network's value of the action that the online network prefers.

    Ties are broken in favour of the first action (van Hasselt et al. 2016, arXiv:1509.06461).

    Args:
      online_q: float [T, B, A]: selects the action; no gradient flows through it.
      target_q: float [T, B, A]: evaluates the action, in the same states.
    """
    online_q, target_q = checks.float_arrays(3, online_q=online_q, target_q=target_q)
    return q_of_actions(target_q, tf.argmax(online_q, axis=-1, output_type=tf.int32))


def n_step_td_errors(
    q_tm1: Any, r_t: Any, discount_t: Any, v_t: Any, n: int, transform: ValueTransform, last_t: Any
) -> tf.Tensor:
    """float32 [T, B]: the n-step TD errors of the actions taken.

        td_t = h(G_t(h^-1(v))) - q_tm1_t,  with h, h^-1 = transform.apply, transform.inverse

    The action of row t, whose value is `q_tm1[t]`, leads to the reward, the discount and the state in row t of the
    other arguments; see `n_step_returns`. The error is zero where an episode ends in the state in which it was taken.

    Args:
      q_tm1: float [T, B]: Q of the actions taken, as output by the online network (transformed); the only argument
        through which gradients flow.
      r_t: float [T, B]: the untransformed rewards.
      discount_t: float [T, B]: gamma, zero where the action ended the episode.
      v_t: float [T, B]: values of the states reached, as output by the target network (transformed).
      n: the number of rewards in a target, at least 1.
      transform: the scale of the networks' outputs.
      last_t: bool [T, B]: whether an episode ends in the state in which the action was taken.

    Raises:
      ValueError: an argument has the wrong shape, n is less than 1, or T is zero or unknown.
    """
    q_tm1, r_t, discount_t, v_t = checks.float_arrays(2, q_tm1=q_tm1, r_t=r_t, discount_t=discount_t, v_t=v_t)
    target_tm1 = transform.apply(n_step_returns(r_t, discount_t, transform.inverse(v_t), n, last_t))
    return tf.where(last_t, 0.0, tf.stop_gradient(target_tm1) - q_tm1)


def sequence_loss(td_errors: Any, importance_weights: Any) -> tf.Tensor:
    """mean_b(weight_b sum_t td_tb^2 / 2), a float32 scalar: summed over steps, averaged over sequences.

    Args:
      td_errors: float [T, B].
      importance_weights: float [B], all one without prioritised replay; no gradient flows through them.
    """
    (td_errors,) = checks.float_arrays(2, td_errors=td_errors)
    checks.check_shape("importance_weights", importance_weights, checks.static_shape(td_errors)[1:])
    importance_weights = tf.cast(importance_weights, tf.float32)
    return 0.5 * tf.reduce_mean(tf.stop_gradient(importance_weights) * tf.reduce_sum(tf.square(td_errors), axis=0))


def sequence_priorities(td_errors: Any, last_t: Any, eta: float = 0.9) -> tf.Tensor:
    """eta max_t |td_t| + (1 - eta) mean_t |td_t|, float32 [B]; no gradient flows through it.

    The mean alone would hide a single surprising step in a long sequence (R2D2, ICLR 2019, section 2.3).

    Args:
      td_errors: float [T, B].
      last_t: bool [T, B]: steps without a TD error, which the mean ignores.
      eta: weight of the maximum.

    Raises:
      ValueError: an argument has the wrong shape, or T is zero or unknown.
    """
    (td_errors,) = checks.float_arrays(2, td_errors=td_errors)
    checks.static_length("td_errors", td_errors)
    magnitudes = tf.abs(tf.stop_gradient(td_errors))
    counted = tf.reduce_sum(1.0 - tf.cast(last_t, tf.float32), axis=0)
    mean = tf.reduce_sum(magnitudes, axis=0) / tf.maximum(counted, 1.0)
    return eta * tf.reduce_max(magnitudes, axis=0) + (1.0 - eta) * mean
