"""The categorical distribution over actions, given by unnormalised logits.

Shapes: any leading axes (written ...), then A actions. Everything is computed in float32, for logits of any
dtype. Logits must be finite: forbid an action with a very negative logit instead of minus infinity.
"""

from typing import Any

import tensorflow as tf

from seed_rl.rl import checks


def log_prob(logits: Any, actions: Any) -> tf.Tensor:
    """log pi(action), float32 [...], of `logits` [..., A] and integer `actions` [...]."""
    logits = _float_logits(logits)
    checks.check_shape("actions", actions, checks.static_shape(logits)[:-1])
    return -tf.nn.sparse_softmax_cross_entropy_with_logits(labels=actions, logits=logits)


def entropy(logits: Any) -> tf.Tensor:
    """-sum_a pi(a) log pi(a) in nats, float32 [...], of `logits` [..., A]."""
    log_probs = tf.nn.log_softmax(_float_logits(logits))
    return -tf.reduce_sum(tf.exp(log_probs) * log_probs, axis=-1)


def sample(logits: Any, seed: Any) -> tf.Tensor:
    """One action per distribution, int32 [...], of `logits` [..., A].

    By the Gumbel-max trick: argmax_a (logits_a + g_a) with g_a = -log(-log u_a) is distributed as softmax(logits).

    Args:
      logits: float [..., A].
      seed: int32 [2]: the same seed gives the same actions, on the same device, compiled the same way (XLA or not).
    """
    logits = _float_logits(logits)
    checks.check_shape("seed", seed, [2])
    # The uniform numbers are multiples of 2^-23 in [0, 1): half a step more keeps both logarithms finite.
    u = tf.random.stateless_uniform(tf.shape(logits), seed) + 2.0**-24
    return tf.argmax(logits - tf.math.log(-tf.math.log(u)), axis=-1, output_type=tf.int32)


def greedy(logits: Any) -> tf.Tensor:
    """The most probable action, the first of several, int32 [...], of `logits` [..., A]."""
    return tf.argmax(_float_logits(logits), axis=-1, output_type=tf.int32)


def _float_logits(logits: Any) -> tf.Tensor:
    if checks.static_shape(logits).rank == 0:
        raise ValueError("logits must have at least one axis, got a scalar")
    return tf.cast(logits, tf.float32)
