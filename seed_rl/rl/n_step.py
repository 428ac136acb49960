"""n-step returns: n rewards plus the bootstrap value of the state that follows them.

Shapes: T steps, B sequences. Row t of every argument describes the transition caused by action a_t: its reward, its
discount, and the value of the state it reaches. In a sequence of steps these three are found at step t + 1.
"""

from typing import Any

import tensorflow as tf

from seed_rl.rl import checks


def n_step_returns(r_t: Any, discount_t: Any, v_t: Any, n: int, last_t: Any) -> tf.Tensor:
    """float32 [T, B]: the n-step return of each a_t, with fewer rewards where fewer than n steps remain.

        G_t = sum_{k < m} (prod_{i < k} d_{t+i}) r_{t+k} + (prod_{i < m} d_{t+i}) v_{t+m-1},  m = min(n, T - t)

    The last n - 1 rows thus all bootstrap from the last value. A discount of zero cuts off all later rewards and the
    value. Where an episode ends in the state in which a_{t+k} was taken, m is at most k: the return bootstraps from
    that state. If k = 0, no return is defined and row t is meaningless.

    Args:
      r_t: float [T, B]: the reward of a_t.
      discount_t: float [T, B]: d_t = gamma (1 - done), zero where a_t ended the episode.
      v_t: float [T, B]: the value of the state that a_t led to.
      n: the number of rewards, at least 1; it may exceed T.
      last_t: bool [T, B]: whether an episode ends in the state in which a_t was taken.
    """
    r_t, discount_t, v_t = checks.float_arrays(2, r_t=r_t, discount_t=discount_t, v_t=v_t)
    checks.check_shape("last_t", last_t, checks.static_shape(r_t))
    length = checks.static_length("r_t", r_t)
    n = min(n, length)
    # Padding after the end passes the last value on unchanged: no reward, discount 1.
    end = [[0, n - 1], [0, 0]]
    r_t, last_t = tf.pad(r_t, end), tf.pad(last_t, end)
    discount_t = tf.pad(discount_t, end, constant_values=1.0)
    v_t = tf.concat([v_t, *[v_t[-1:]] * (n - 1)], axis=0)
    returns = v_t[n - 1 :]
    for i in reversed(range(n)):
        rows, before = slice(i, i + length), slice(i - 1, i - 1 + length)
        returns = r_t[rows] + discount_t[rows] * returns
        if i:
            returns = tf.where(last_t[rows], v_t[before], returns)
    return returns
