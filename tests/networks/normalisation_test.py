"""Running statistics against those of all data, and heads whose outputs stay as they are when statistics move."""

import numpy as np
import pytest
import tensorflow as tf

from seed_rl.networks.normalisation import RunningMoments, ValueHead


def test_moments_are_those_of_all_batches_however_many_devices_saw_them():
    rng = np.random.default_rng(0)
    data = 30 + np.array([0.5, 3.0]) * rng.standard_normal((6, 50, 4, 2))
    moments = RunningMoments((2,), name="moments")
    for batch in data.astype(np.float32):
        halves = [moments.moments(tf.constant(half)) for half in np.split(batch, 2)]
        moments.update(tf.add_n(halves) / 2)
    np.testing.assert_allclose(moments.mean, data.mean(axis=(0, 1, 2)), rtol=1e-6)
    np.testing.assert_allclose(moments.deviation, data.std(axis=(0, 1, 2)), rtol=1e-3)
    normal = moments.normalise(tf.constant(data, tf.float32)).numpy()
    assert np.abs(normal.mean(axis=(0, 1, 2))).max() < 1e-3
    assert normal.std() == pytest.approx(1, rel=1e-3)


def test_quantities_that_never_change_are_left_small_and_outliers_are_clipped():
    moments = RunningMoments((), name="moments")
    moments.update(moments.moments(tf.fill([8], 7.0)))
    np.testing.assert_allclose(moments.normalise([7.0, 7.001, 1e6]), [0, 0.1, 10], atol=1e-2)


def test_old_batches_are_forgotten_in_the_end():
    moments = RunningMoments((), name="moments")
    moments.batches.assign(1e6)
    moments.update(moments.moments(tf.ones([8])))
    assert float(moments.mean.value) == pytest.approx(1e-3)


def test_values_stay_when_the_statistics_of_their_targets_move():
    rng = np.random.default_rng(0)
    features = tf.constant(rng.standard_normal((5, 3, 4)), tf.float32)
    head = ValueHead("glorot_uniform", normalised=True, name="value")
    before = head(features).numpy()
    assert before.shape == (5, 3)
    for scale in (100.0, 0.5):
        head.update(head.moments(tf.constant(scale * (3 + rng.standard_normal((5, 3))), tf.float32)))
        np.testing.assert_allclose(head(features), before, rtol=1e-3, atol=1e-4)
    assert float(head.deviation) > 20, "the unit has changed"
    assert len(head.trainable_variables) == 2


def test_a_head_without_statistics_is_a_dense_layer():
    head = ValueHead("zeros", normalised=False, name="value")
    assert not np.any(head(tf.ones([2, 4])))
    assert head.moments(tf.ones([2])) == ()
    head.update(())
    assert float(head.deviation) == 1.0
    assert len(head.variables) == 2
