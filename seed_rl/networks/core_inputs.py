"""What a recurrent core is told besides the features of the observation.

Shapes: T steps, B sequences, F features, G action features.
"""

from typing import Any

import tensorflow as tf

from seed_rl.rl import checks


def previous_step_features(features: Any, reward: Any, prev_action: Any) -> tf.Tensor:
    """The features followed by the previous reward and the previous action.

    Args:
      features: float [T, B, F] of the observation of step t.
      reward: float [T, B]: the reward of step t, which the previous action caused.
      prev_action: float [T, B, G]: the action before step t as features, such as its one-hot form.

    Returns:
      [T, B, F + 1 + G], in the dtype of the features.
    """
    checks.check_rank("features", features, 3)
    shape = checks.static_shape(features)
    checks.check_shape("reward", reward, shape[:2])
    checks.check_shape("prev_action", prev_action, [*shape[:2], None])
    features = tf.convert_to_tensor(features)
    reward = tf.cast(reward, features.dtype)
    return tf.concat([features, reward[..., tf.newaxis], tf.cast(prev_action, features.dtype)], axis=-1)
