"""Unrolls written step by step, read as a whole, and copied out and back."""

import numpy as np
import tensorflow as tf

from seed_rl.buffers.slots import SlotPool, UnrollQueue
from seed_rl.buffers.unroll_store import StepWrites, Unrolls, UnrollStore
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


def empty(slots=SLOTS, places=10, history=0):
    """A store, and a pool whose unrolls refer to so many steps before their own."""

    def restore(state, observations):
        return state, observations

    store = UnrollStore(SPEC, slots, places, "", history, restore)
    return Unrolls(store, SlotPool(slots, places, history + LENGTH), UnrollQueue(1))


def filled(history=0):
    """Unrolls that overlap by a step, of two environments, in slots 2 and 0, and 1 and 3."""
    unrolls = empty(history=history)
    write, places = tf.function(unrolls.store.write, autograph=False), unrolls.pool.acquire_places(10).reshape(5, 2)
    for step, opened in enumerate([(2, 1), (SLOTS, SLOTS), (0, 3), (SLOTS, SLOTS), (SLOTS, SLOTS)]):
        write(StepWrites(tf.constant(places[step]), tf.constant(opened, tf.int32)), steps(step, 10 + step))
    before = np.full((history, 2), unrolls.pool.num_places)
    for slots, begin in ((2, 1), 0), ((0, 3), 2):
        own = np.concatenate([before, places])[begin : begin + history + LENGTH]
        unrolls.pool.finish(np.array(slots), own.T)
    unrolls.pool.release_places(places.ravel())
    return unrolls


def test_unrolls_that_overlap_are_read_time_major_with_the_state_before_their_first_step():
    unrolls = filled(history=1)
    unroll = unrolls.store.read(unrolls.at(np.array([2, 0, 3], np.int32)))
    np.testing.assert_array_equal(unroll.action, [[0, 2, 12], [1, 3, 13], [2, 4, 14]])
    stored, before = unroll.initial_state
    np.testing.assert_array_equal(stored, [[0, 0], [2, 2], [12, 12]])
    np.testing.assert_array_equal(before[..., 4], [[0, 1, 11]])
    np.testing.assert_array_equal(unroll.env_output.observation[..., 4], unroll.action)
    assert [t.shape for t in tf.nest.flatten(unrolls.read_blank(3))] == [t.shape for t in tf.nest.flatten(unroll)]
