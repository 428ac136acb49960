import numpy as np
import pytest
import tensorflow as tf

from seed_rl.buffers.unroll_store import StepWrites, UnrollStore
from seed_rl.types import EnvOutput, Unroll

SPEC = Unroll(
    initial_state=tf.TensorSpec([2], tf.float32),
    prev_action=tf.TensorSpec([], tf.int32),
    env_output=EnvOutput(
        tf.TensorSpec([], tf.float32), *[tf.TensorSpec([], tf.bool)] * 2, {"a": tf.TensorSpec([3, 2], tf.uint8)}
    ),
    action=tf.TensorSpec([], tf.int32),
    behaviour=(),
)


def random_step(rng, batch):
    def draw(spec):
        values = rng.integers(0, 2 if spec.dtype == tf.bool else 200, size=(batch, *spec.shape))
        return values.astype(spec.dtype.as_numpy_dtype)

    return tf.nest.map_structure(draw, SPEC)


@pytest.mark.parametrize("jit_compile", [False, True])
def test_unrolls_equal_those_of_a_naive_twin(jit_compile):
    rng = np.random.default_rng(0)
    length, num_slots, batch, depth = 4, 5, 3, 2
    store = UnrollStore(SPEC, length, num_slots)
    write = tf.function(store.write, jit_compile=jit_compile, autograph=False)
    shape = lambda spec, *lead: np.zeros((*lead, *spec.shape), spec.dtype.as_numpy_dtype)  # noqa: E731
    twin = tf.nest.map_structure(lambda spec: shape(spec, num_slots, length), SPEC._replace(initial_state=()))
    twin_state = shape(SPEC.initial_state, num_slots)

    for _ in range(60):
        step = random_step(rng, batch)
        places = rng.choice(num_slots * length, size=depth * batch, replace=False)
        slots = np.where(rng.random(depth * batch) < 0.3, num_slots, places // length)  # some go nowhere
        slots, positions = slots.reshape(depth, batch), (places % length).reshape(depth, batch)
        opened = np.where(rng.random(batch) < 0.5, num_slots, rng.permutation(num_slots)[:batch])
        write(StepWrites(*(x.astype(np.int32) for x in (slots, positions, opened))), step)
        for d in range(depth):
            for b in range(batch):
                if slots[d, b] < num_slots:
                    tf.nest.map_structure(
                        lambda to, x, s=slots[d, b], p=positions[d, b], b=b: to[s].__setitem__(p, x[b]),
                        twin,
                        step._replace(initial_state=()),
                    )
        for b in range(batch):
            if opened[b] < num_slots:
                twin_state[opened[b]] = step.initial_state[b]

    def check(got, want):
        np.testing.assert_array_equal(got, np.swapaxes(want[order], 0, 1))

    order = np.array([4, 0, 3, 3], np.int32)
    unroll = store.read(tf.constant(order))
    assert unroll.env_output.observation["a"].shape == (length, 4, 3, 2)
    np.testing.assert_array_equal(unroll.initial_state, twin_state[order])
    tf.nest.map_structure(check, unroll._replace(initial_state=()), twin)
    small = store.read_without_observations(tf.constant(order))
    assert small.initial_state == small.env_output.observation == ()
    tf.nest.map_structure(check, small, twin._replace(env_output=twin.env_output._replace(observation=())))


def test_counts_its_bytes():
    # A step: prev_action 4, reward 4, done 1, truncated 1, action 4, observation 6 held as 128; an unroll: state 8.
    store = UnrollStore(SPEC, 4, 5)
    assert store.nbytes_each == 4 * (14 + 128) + 8
    assert store.nbytes == 6 * store.nbytes_each
