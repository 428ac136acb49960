"""V-trace: off-policy corrected value targets and advantages (IMPALA, arXiv:1802.01561, section 4.1).

On-policy, V-trace's targets are lambda-returns.

Shapes: T steps, B sequences. Index t of `log_rhos` and `values` refers to the state x_t and the action a_t taken in it;
that action leads to the reward `r_t[t]` and, with the discount `discount_t[t]`, to the state x_{t+1}. In an unroll
these two are found at step t + 1.
"""

from typing import Any, NamedTuple

import tensorflow as tf

from seed_rl.rl import checks


class VTraceReturns(NamedTuple):
    """V-trace targets and advantages; no gradient flows through them."""

    vs: tf.Tensor
    """float32 [T, B]: v_t, the target of V(x_t)."""
    advantages: tf.Tensor
    """float32 [T, B]: the advantage of a_t."""
    pg_advantages: tf.Tensor
    """float32 [T, B]: that advantage times the importance weight of a_t."""


def vtrace(
    log_rhos: Any,
    discount_t: Any,
    r_t: Any,
    values: Any,
    bootstrap_value: Any,
    *,
    last_t: Any = None,
    lambda_: float = 1.0,
    clip_rho: float | None = 1.0,
    clip_pg_rho: float | None = 1.0,
) -> VTraceReturns:
    """Compute V-trace targets and advantages.

        rho_t = min(clip_rho, pi(a_t) / mu(a_t)),  c_t = lambda min(1, pi(a_t) / mu(a_t))
        delta_t = rho_t (r_t + gamma_t V(x_{t+1}) - V(x_t))
        v_t = V(x_t) + delta_t + gamma_t c_t (v_{t+1} - V(x_{t+1}))
        advantage_t = r_t + gamma_t v_{t+1} - V(x_t),  importance weight min(clip_pg_rho, pi(a_t) / mu(a_t))

    Where an episode ends in x_t, a_t leads nowhere: v_t = V(x_t), advantage_t = 0.

    Args:
      log_rhos: float [T, B]: log pi(a_t) - log mu(a_t) for the target policy pi and the behaviour policy mu.
      discount_t: float [T, B]: gamma_t, zero where a_t ended the episode.
      r_t: float [T, B]: the reward of a_t.
      values: float [T, B]: V(x_t).
      bootstrap_value: float [B]: V(x_T).
      last_t: bool [T, B]: whether an episode ends in x_t (the discount of a_t is then zero as well); None: nowhere.
      lambda_: interpolates between the one-step target (0) and the full correction (1).
      clip_rho: upper bound of the importance weights in the targets, None for no bound. It determines the policy whose
        value function v estimates.
      clip_pg_rho: upper bound of the importance weights of the advantages, None for no bound.
    """
    arrays = checks.float_arrays(2, log_rhos=log_rhos, discount_t=discount_t, r_t=r_t, values=values)
    log_rhos, discount_t, r_t, values = map(tf.stop_gradient, arrays)
    shape = checks.static_shape(log_rhos)
    last_t = tf.zeros_like(log_rhos, tf.bool) if last_t is None else last_t
    checks.check_shape("last_t", last_t, shape)
    checks.check_shape("bootstrap_value", bootstrap_value, shape[1:])
    checks.static_length("log_rhos", log_rhos)

    bootstrap_value = tf.stop_gradient(tf.cast(bootstrap_value, tf.float32))
    acted_t = 1.0 - tf.cast(last_t, tf.float32)
    # The state that a_t leads to is x_{t+1}, and x_T after the last action.
    values_tp1 = _shift(values, bootstrap_value)
    delta_t = acted_t * _importance(log_rhos, clip_rho) * (r_t + discount_t * values_tp1 - values)
    c_t = lambda_ * _importance(log_rhos, 1.0)
    vs = values + _backward_recursion(delta_t, discount_t * c_t)
    q_t = r_t + discount_t * _shift(vs, bootstrap_value)
    advantages = acted_t * (q_t - values)
    return VTraceReturns(vs, advantages, _importance(log_rhos, clip_pg_rho) * advantages)


def lambda_returns(
    discount_t: Any, r_t: Any, values: Any, bootstrap_value: Any, *, last_t: Any = None, lambda_: float
) -> tf.Tensor:
    """TD(lambda) targets, float32 [T, B]; less the values, they are the advantages of GAE (arXiv:1506.02438).

        G_t = r_t + gamma_t ((1 - lambda) V(x_{t+1}) + lambda G_{t+1})

    They are V-trace's targets if the target policy acts. For arguments, see `vtrace`.
    """
    return vtrace(tf.zeros_like(r_t), discount_t, r_t, values, bootstrap_value, last_t=last_t, lambda_=lambda_).vs


def _shift(x: tf.Tensor, last: tf.Tensor) -> tf.Tensor:
    """x_{t+1} at index t, with `last` [B] at the end: [T, B]."""
    return tf.concat([x[1:], last[tf.newaxis]], axis=0)


def _importance(log_rhos: tf.Tensor, clip: float | None) -> tf.Tensor:
    """The ratio pi / mu, clipped at `clip`: [T, B]."""
    rhos = tf.exp(log_rhos)
    return rhos if clip is None else tf.minimum(rhos, clip)


def _backward_recursion(delta_t: tf.Tensor, decay_t: tf.Tensor) -> tf.Tensor:
    """acc_t = delta_t + decay_t acc_{t+1}, zero after the end: [T, B].

    Computed by doubling: each round doubles the number of steps that acc_t sums and decay_t multiplies, so log2(T)
    rounds of operations on whole arrays replace T small ones. The products never grow, because discount_t c_t <= 1.
    """
    acc_t, step = delta_t, 1
    while step < delta_t.shape[0]:
        end = [[0, step], [0, 0]]
        acc_t += decay_t * tf.pad(acc_t[step:], end)
        decay_t *= tf.pad(decay_t[step:], end)
        step *= 2
    return acc_t
