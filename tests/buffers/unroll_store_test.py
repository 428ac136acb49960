"""Unrolls written step by step, read as a whole, and copied out and back."""

import numpy as np
import pytest
import tensorflow as tf

from seed_rl.buffers.unroll_store import StepWrites, UnrollStore
from seed_rl.types import EnvOutput, Unroll

LENGTH, SLOTS = 3, 4
NUMBER, FLAG = tf.TensorSpec([], tf.float32), tf.TensorSpec([], tf.bool)
SPEC = Unroll(
    initial_state=tf.TensorSpec([2], tf.float32),
    prev_action=tf.TensorSpec([], tf.int32),
    env_output=EnvOutput(NUMBER, FLAG, FLAG, tf.TensorSpec([5], tf.uint8)),
    action=tf.TensorSpec([], tf.int32),
    behaviour=(),
)


def steps(*numbers):
    """A step of each environment, whose numbers are everywhere."""
    return tf.nest.map_structure(
        lambda spec: tf.stack([tf.cast(tf.fill(spec.shape, number), spec.dtype) for number in numbers]), SPEC
    )


def filled():
    """A store in whose slots 2 and 0, and 1 and 3, are unrolls that overlap by a step, of two environments."""
    store = UnrollStore(SPEC, LENGTH, SLOTS)
    write, spare = tf.function(store.write, autograph=False), SLOTS
    for step, (slots, positions, opened) in enumerate(
        [
            ([(2, 1), (spare, spare)], [(0, 0), (0, 0)], (2, 1)),
            ([(2, 1), (spare, spare)], [(1, 1), (0, 0)], (spare, spare)),
            ([(2, 1), (0, 3)], [(2, 2), (0, 0)], (0, 3)),
            ([(0, 3), (spare, spare)], [(1, 1), (0, 0)], (spare, spare)),
            ([(0, 3), (spare, spare)], [(2, 2), (0, 0)], (spare, spare)),
        ]
    ):
        write(StepWrites(*(tf.constant(each, tf.int32) for each in (slots, positions, opened))), steps(step, 10 + step))
    return store


def test_unrolls_that_overlap_are_read_time_major_with_the_state_before_their_first_step():
    unroll = filled().read(tf.constant([2, 0, 3]))
    np.testing.assert_array_equal(unroll.action, [[0, 2, 12], [1, 3, 13], [2, 4, 14]])
    np.testing.assert_array_equal(unroll.initial_state, [[0, 0], [2, 2], [12, 12]])
    np.testing.assert_array_equal(unroll.env_output.observation[..., 4], unroll.action)


def test_rows_are_copied_out_and_back_into_other_slots():
    store, other = filled(), UnrollStore(SPEC, LENGTH, 2)
    rows = store.get_rows(np.array([1, 0], np.int32))
    other.set_rows(np.array([1, 0], np.int32), rows)
    tf.nest.map_structure(np.testing.assert_array_equal, other.read([1, 0]), store.read([1, 0]))
    assert store.nbytes == sum(np.prod(v.shape) * v.dtype.size for v in store.variables)
    assert store.nbytes_each * (SLOTS + 1) == store.nbytes
    for odd, sentence in (
        (rows[1:], "expected 7 tensors, got 6"),
        ([rows[0][:1], *rows[1:]], r"expected float32\[2, 2\], got float32\[1, 2\]"),
        ([*rows[:-1], rows[-1].astype(np.int64)], r"expected int32\[2, 3\], got int64\[2, 3\]"),
    ):
        with pytest.raises(ValueError, match=sentence):
            other.set_rows(np.array([1, 0], np.int32), odd)
