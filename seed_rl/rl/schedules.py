"""Learning rate schedules: factors of the initial rate as functions of the share of the run that is over.

`progress` is a float scalar, 0 at the start and 1 at the end of the run; it may pass 1 when the last step overshoots.
"""

from typing import Any

import tensorflow as tf

from seed_rl.rl import checks


def constant(progress: Any) -> tf.Tensor:
    """1 throughout: float32 scalar."""
    checks.check_rank("progress", progress, 0)
    return tf.ones([], tf.float32)


def linear_decay(progress: Any) -> tf.Tensor:
    """From 1 down to 0 at the end of the run, and 0 after it: float32 scalar."""
    checks.check_rank("progress", progress, 0)
    return 1.0 - tf.clip_by_value(tf.cast(progress, tf.float32), 0.0, 1.0)
