"""Epsilon-greedy exploration with a separate epsilon for each environment.

Shapes: B environments, A actions.
"""

from typing import Any

import numpy as np
import tensorflow as tf

from seed_rl.rl import checks, masks, randomness


def epsilon_ladder(num_envs: int, base: float = 0.4, low: float = 1.0, high: float = 8.0) -> np.ndarray:
    """float32 [num_envs]: epsilon_i = base^x_i with x_i linear from `low` to `high` (Ape-X, arXiv:1803.00933).

    With the defaults the first environment explores in 40 % of its steps, the last in 0.07 %. A single environment has
    x = `low`.
    """
    return np.power(base, np.linspace(low, high, num_envs)).astype(np.float32)


def epsilon_greedy(q: Any, epsilon: Any, seed: Any, masked: bool = False) -> tf.Tensor:
    """int32 [B]: a random legal action with probability epsilon, otherwise the first action of maximal value.

    Args:
      q: float [B, A]: the action values.
      epsilon: float [B]: the probability of a uniformly random legal action, which may happen to be the greedy one.
      seed: int32 [2]: the only source of randomness; the same seed gives the same actions with and without XLA.
      masked: whether `q` is the result of `masks.masked`, so that there may be illegal actions.

    Raises:
      ValueError: an argument has the wrong shape, or A is zero or unknown.
    """
    checks.check_rank("q", q, 2)
    shape = checks.static_shape(q)
    checks.check_shape("epsilon", epsilon, shape[:1])
    checks.check_shape("seed", seed, [2])
    if not shape[1]:
        raise ValueError(f"q must have a last axis of known length, at least 1, got shape {shape}")

    q, epsilon = tf.cast(q, tf.float32), tf.cast(epsilon, tf.float32)
    whether_seed, which_seed = randomness.split(seed, 2)
    explores = randomness.uniform(tf.shape(epsilon), whether_seed) < epsilon
    if masked:
        drawn = masks.masked(randomness.uniform(tf.shape(q), which_seed), masks.is_legal(q))
        any_action = tf.argmax(drawn, axis=-1, output_type=tf.int32)
    else:
        any_action = randomness.integers(tf.shape(epsilon), which_seed, shape[1])
    return tf.where(explores, any_action, tf.argmax(q, axis=-1, output_type=tf.int32))
