"""Exploration: random actions with a separate epsilon for each environment, and actions that are held.

Shapes: B environments, A actions.
"""

from typing import Any, NamedTuple

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
      masked: whether `q` is the result of `masks.mask_illegal`, so that there may be illegal actions.
    """
    (q,), (epsilon,) = checks.float_arrays(2, q=q), checks.float_arrays(1, epsilon=epsilon)
    checks.check_shape("epsilon", epsilon, q.shape[:1])
    checks.check_shape("seed", seed, [2])
    whether_seed, which_seed = randomness.split(seed, 2)
    explores = randomness.uniform(tf.shape(epsilon), whether_seed) < epsilon
    if masked:
        drawn = masks.mask_illegal(randomness.uniform(tf.shape(q), which_seed), masks.is_legal(q))
        any_action = tf.argmax(drawn, axis=-1, output_type=tf.int32)
    else:
        any_action = randomness.integers(tf.shape(epsilon), which_seed, q.shape[1])
    return tf.where(explores, any_action, tf.argmax(q, axis=-1, output_type=tf.int32))


class Holding(NamedTuple):
    """How long each environment has gone without a reward, and how long it has taken the same action."""

    unrewarded: Any
    """int32 [B]: steps since the last reward."""
    held: Any
    """int32 [B]: steps since the last decision, which took the present action; 0 before the first."""


def hold(before: Holding, reward: Any, allowed: Any, patience: int, seed: Any) -> tuple[tf.Tensor, Holding]:
    """Decide which environments take their previous action once more, without a decision of the policy.

    In an environment that has gone `patience` steps without a reward, an action held for k steps is held on with
    probability k / (k + 1), so that it lasts for n steps or more with probability 1 / n: durations have no scale, as in
    epsilon-z-greedy (arXiv:2006.01782). The first reward ends this.

    Args:
      before: the durations that the previous step returned; zeros before the first.
      reward: float [B]: reward of the previous action.
      allowed: bool [B]: whether the previous action may be taken again.
      patience: number of steps.
      seed: int32 [2]: as in `epsilon_greedy`.

    Returns bool [B], and the durations after this step.
    """
    unrewarded = tf.where(reward != 0.0, 0, before.unrewarded + 1)
    k = tf.cast(before.held, tf.float32)
    lasts = randomness.uniform(tf.shape(k), seed) * (k + 1.0) < k
    holds = allowed & lasts & (unrewarded > patience)
    return holds, Holding(unrewarded, tf.where(holds, before.held, 0) + 1)
