import io

import numpy as np
import pytest
import tensorflow as tf

from seed_rl.buffers import snapshot
from seed_rl.buffers.snapshot import arrays_of, read_unrolls, write_snapshot
from seed_rl.buffers.unroll_store import UnrollStore
from seed_rl.system.archives import Archive
from seed_rl.types import EnvOutput, Unroll

LENGTH, SLOTS = 3, 12
SPEC = Unroll(
    initial_state=(tf.TensorSpec([2], tf.float32), ()),
    prev_action=tf.TensorSpec([], tf.int32),
    env_output=EnvOutput(
        tf.TensorSpec([], tf.float32), *[tf.TensorSpec([], tf.bool)] * 2, tf.TensorSpec([4, 1], tf.uint8)
    ),
    action=tf.TensorSpec([], tf.int32),
    behaviour={"q": tf.TensorSpec([], tf.float32)},
)


def filled(seed):
    """A store with random contents."""
    store, slots, rng = UnrollStore(SPEC, LENGTH, SLOTS), np.arange(SLOTS), np.random.default_rng(seed)
    store.set_rows(slots, [rng.integers(0, 200, rows.shape).astype(rows.dtype) for rows in store.get_rows(slots)])
    return store


def contents(store, slots):
    return [t.numpy() for t in tf.nest.flatten(store.read(tf.constant(slots)))]


def written(store, slots, **arrays):
    file = io.BytesIO()
    write_snapshot(file, store, np.array(slots, np.int32), arrays)
    return file.getvalue()


def read(data, store, slots):
    read_unrolls(Archive(io.BytesIO(data)), store, np.array(slots, np.int32))


def test_unrolls_come_back_in_other_slots_and_leave_the_rest_alone(monkeypatch):
    store, other = filled(0), filled(1)
    monkeypatch.setattr(snapshot, "PIECE_BYTES", 2 * store.nbytes_each)
    before = contents(other, [9, 10, 11])
    data = written(store, [7, 2, 11, 4, 5], counts=np.array([3, 4]))
    assert 5 * store.nbytes_each < len(data) < 5 * store.nbytes_each + 15_000
    np.testing.assert_equal(arrays_of(Archive(io.BytesIO(data))), {"counts": np.array([3, 4])})
    read(data, other, [0, 8, 1, 2, 3])
    np.testing.assert_equal(contents(other, [0, 8, 1, 2, 3]), contents(store, [7, 2, 11, 4, 5]))
    np.testing.assert_equal(contents(other, [9, 10, 11]), before)


def test_unrolls_that_do_not_fit_are_refused(monkeypatch):
    store, longer = filled(0), UnrollStore(SPEC, LENGTH + 1, SLOTS)
    monkeypatch.setattr(snapshot, "PIECE_BYTES", store.nbytes_each)
    with pytest.raises(ValueError, match=r"expected int32\[1, 4\], got int32\[1, 3\]"):
        read(written(store, [0, 1]), longer, [0, 1])
    np.testing.assert_array_equal(contents(longer, [0, 1])[0], 0)
    with pytest.raises(ValueError, match="expected 8 tensors, got 0"):
        read(written(store, []), store, [0, 1])
    with pytest.raises(ValueError, match="it holds more than 2 unrolls"):
        read(written(store, [0, 1, 2]), store, [0, 1])


def test_a_store_counts_its_bytes():
    # A step: prev_action 4, reward 4, done 1, last 1, observation 4 held as 128, action 4, q 4; an unroll: state 8.
    store = UnrollStore(SPEC, LENGTH, SLOTS)
    assert store.nbytes_each == LENGTH * (18 + 128) + 8
    assert store.nbytes == (SLOTS + 1) * store.nbytes_each
