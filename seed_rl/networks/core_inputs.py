"""What a recurrent core is told besides the features of the observation.

Shapes: T steps, B sequences, F features, A actions.
"""

from typing import Any

import tensorflow as tf

from seed_rl.rl import checks


def previous_step_features(features: Any, reward: Any, prev_action: Any, num_actions: int) -> tf.Tensor:
    """The features followed by the previous reward and the one-hot previous action.

    Args:
      features: float [T, B, F] of the observation of step t.
      reward: float [T, B]: the reward of step t, which the previous action caused.
      prev_action: int [T, B]: the action before step t.
      num_actions: A.

    Returns:
      [T, B, F + 1 + A], in the dtype of the features.
    """
    checks.check_rank("features", features, 3)
    shape = checks.static_shape(features)
    checks.check_shape("reward", reward, shape[:2])
    checks.check_shape("prev_action", prev_action, shape[:2])
    features = tf.convert_to_tensor(features)
    reward = tf.cast(reward, features.dtype)
    one_hot = tf.one_hot(prev_action, num_actions, dtype=features.dtype)
    return tf.concat([features, reward[..., tf.newaxis], one_hot], axis=-1)
