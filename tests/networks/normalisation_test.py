"""Running statistics against those of all data, and heads whose outputs stay as they are when statistics move."""

import numpy as np
import pytest
import tensorflow as tf

from seed_rl.networks.normalisation import RunningMoments, ValueHead


def show(moments, batch, devices=1):
    """Moves the statistics by a batch as the learner does: the first one twice."""
    steps = np.size(batch) // max(int(np.prod(moments.mean.shape)), 1)
    for _ in range(2 if float(moments.steps.value) < 0 else 1):
        parts = [moments.moments(tf.constant(part, tf.float32)) for part in np.split(batch, devices)]
        moments.update(tf.add_n(parts) / devices, steps)


@pytest.mark.parametrize(
    ("scale", "offset", "bounded"),
    [(1e-6, 1e6, True), (1e-6, 0.0, False), (1.0, 1e6, False), (1e6, 30.0, True)],
)
def test_moments_are_those_of_all_batches_in_any_unit_however_many_devices_saw_them(scale, offset, bounded):
    rng = np.random.default_rng(0)
    data = scale * (offset + np.array([0.5, 3.0]) * rng.standard_normal((6, 50, 4, 2)))
    moments = RunningMoments((2,), name="moments", bounded=bounded)
    for batch in data:
        show(moments, batch, devices=2)
    # float32 tells apart numbers of 1e6 that differ by a sixteenth.
    np.testing.assert_allclose(moments.mean, data.mean(axis=(0, 1, 2)), rtol=1e-5, atol=0.1 * scale)
    np.testing.assert_allclose(moments.deviation, data.std(axis=(0, 1, 2)), rtol=5e-3)
    normal = moments.normalise(tf.constant(data, tf.float32)).numpy()
    assert np.abs(normal.mean(axis=(0, 1, 2))).max() < 0.1
    assert normal.std() == pytest.approx(1, rel=5e-3)


def test_values_that_are_left_out_do_not_count():
    rng = np.random.default_rng(0)
    moments, kept = RunningMoments((), name="moments"), []
    for share in (0.7, 0.1, 1.0, 0.0):
        values, out = 5 + rng.standard_normal([40]), rng.random([40]) >= share
        kept.extend(values[~out])
        for _ in range(1 if moments.steps > 0 else 2):
            moments.update(moments.moments(values, out), 40)
    assert float(moments.steps) == pytest.approx(len(kept))
    assert float(moments.mean) == pytest.approx(np.mean(kept), rel=1e-5)
    assert float(moments.deviation) == pytest.approx(np.std(kept), rel=1e-4)


@pytest.mark.parametrize("value", [0.0, 0.1, -1e6])
def test_quantities_that_never_changed_are_zero_and_their_first_change_is_standardised(value):
    moments = RunningMoments((), name="moments", bounded=True)
    batch = np.full([64], value)
    for _ in range(30):
        show(moments, batch)
    np.testing.assert_allclose(moments.normalise(tf.constant(batch, tf.float32)), 0, atol=1e-5)
    batch[::2] += 1e-3 * abs(value) or 1e-9
    show(moments, batch)
    low, high = moments.normalise(tf.constant(batch[[1, 0]], tf.float32)).numpy()
    assert -0.2 < low < 0 < 5 < high <= 10


@pytest.mark.parametrize("when", [0, 10])
def test_a_single_outlier_does_not_blind(when):
    rng = np.random.default_rng(0)
    moments, free = RunningMoments((), name="moments", bounded=True), RunningMoments((), name="free")
    for step in range(20):
        batch = rng.standard_normal([64])
        batch[0] = 1e6 if step == when else batch[0]
        show(moments, batch)
        show(free, batch)
    assert 0.8 < float(moments.deviation) < 1.5
    assert abs(float(moments.mean.value)) < 0.3
    assert float(free.deviation) > 1e4
    assert float(moments.normalise(1e6)) == 10


@pytest.mark.parametrize("size", [1024, 16_384], ids=["at first", "with a full window"])
def test_a_bounded_quantity_that_grows_is_followed_within_a_few_batches(size):
    rng = np.random.default_rng(0)
    moments = RunningMoments((), name="moments", bounded=True)
    for _ in range(10):
        show(moments, rng.standard_normal([size]))
    for _ in range(10):
        show(moments, 1e3 * rng.standard_normal([1024]))
    assert 200 < float(moments.deviation) < 1000


def test_a_quantity_that_is_seldom_anything_but_zero_keeps_its_deviation():
    share = 0.001
    rng = np.random.default_rng(0)
    moments = RunningMoments((), name="moments", bounded=True)
    for _ in range(150):
        show(moments, (rng.random([1024]) < share) * rng.random([1024]))
    assert float(moments.deviation) == pytest.approx((share / 3) ** 0.5, rel=0.2)


def test_what_lies_further_back_than_the_window_is_forgotten():
    moments = RunningMoments((), name="moments")
    show(moments, np.zeros([8]))
    for _ in range(20):
        moments.update(moments.moments(tf.ones([8])), 50_000)
    assert float(moments.mean.value) == pytest.approx(1, abs=1e-3)
    moments.update(moments.moments(tf.zeros([8])), 1_000_000)
    assert float(moments.mean.value) == 0, "a batch as large as the window is all there is"


def test_values_stay_when_the_statistics_of_their_targets_move():
    rng = np.random.default_rng(0)
    head, features = ValueHead(normalised=True, name="value"), tf.constant(rng.standard_normal((5, 3, 4)), tf.float32)
    assert not np.any(head(features)), "zero before any update"
    head.kernel.assign(rng.standard_normal((4, 1)))
    before = head(features).numpy()
    assert before.shape == (5, 3)
    for scale in (100.0, 100.0, 0.5):
        head.update(head.moments(tf.constant(scale * (3 + rng.standard_normal((5, 3))), tf.float32)), 15)
        np.testing.assert_allclose(head(features), before, rtol=1e-3, atol=1e-4)
    assert float(head.deviation) > 20, "the unit has changed"
    assert len(head.trainable_variables) == 2
