import numpy as np
import pytest
import tensorflow as tf

from seed_rl.rl import schedules


@pytest.mark.parametrize("progress", [0.0, 0.3, 1.0, 2.0])
def test_constant_is_one(progress):
    assert float(schedules.constant(progress)) == 1.0


@pytest.mark.parametrize(("progress", "factor"), [(0.0, 1.0), (0.25, 0.75), (1.0, 0.0), (1.5, 0.0), (-0.1, 1.0)])
def test_linear_decay_reaches_zero_at_the_end_and_stays(progress, factor):
    np.testing.assert_allclose(schedules.linear_decay(progress), factor)


def test_schedules_take_tensors_and_give_float32_scalars():
    for schedule in (schedules.constant, schedules.linear_decay):
        factor = tf.function(schedule, jit_compile=True)(tf.constant(0.5, tf.float64))
        assert factor.dtype == tf.float32
        assert factor.shape == ()


def test_progress_must_be_a_scalar():
    for schedule in (schedules.constant, schedules.linear_decay):
        with pytest.raises(ValueError, match="progress must have rank 0"):
            schedule([0.5])
