import io

import numpy as np
import pytest
import tensorflow as tf

from seed_rl.buffers import snapshot
from seed_rl.buffers.unroll_store import StepWrites, UnrollStore
from seed_rl.types import EnvOutput, Unroll

LENGTH, SLOTS = 3, 12
SPEC = Unroll(
    initial_state=(tf.TensorSpec([2], tf.float32), ()),
    prev_action=tf.TensorSpec([], tf.int32),
    env_output=EnvOutput(tf.TensorSpec([], tf.float32), tf.TensorSpec([], tf.bool), tf.TensorSpec([4, 1], tf.uint8)),
    action=tf.TensorSpec([], tf.int32),
    behaviour={"q": tf.TensorSpec([], tf.float32)},
)


def filled(seed):
    """A store whose every slot holds something else."""
    store = UnrollStore(SPEC, LENGTH, SLOTS)
    rng = np.random.default_rng(seed)
    for slot in range(SLOTS):
        for position in range(LENGTH):

            def draw(spec):
                return tf.constant(rng.integers(0, 200, [1, *spec.shape]).astype(spec.dtype.as_numpy_dtype))

            where = StepWrites(
                tf.constant([[slot]]), tf.constant([[position]]), tf.constant([slot if position == 0 else SLOTS])
            )
            store.write(where, tf.nest.map_structure(draw, SPEC))
    return store


def contents(store, slots):
    return [t.numpy() for t in tf.nest.flatten(store.read(tf.constant(slots)))]


@pytest.fixture(params=[1, 100, 10_000])
def piece_bytes(request, monkeypatch):
    """Pieces of one unroll, of a few and of all."""
    monkeypatch.setattr(snapshot, "_PIECE_BYTES", request.param)


@pytest.mark.usefixtures("piece_bytes")
def test_unrolls_come_back_in_other_slots_and_leave_the_rest_alone():
    store, other = filled(0), filled(1)
    before = contents(other, [9, 10, 11])
    file = io.BytesIO()
    snapshot.write_snapshot(file, store, np.array([7, 2, 11, 4, 5], np.int32), {"counts": np.array([3, 4])})
    file.seek(0)
    arrays = snapshot.read_arrays(file)
    assert set(arrays) == {"counts"}
    np.testing.assert_array_equal(arrays["counts"], [3, 4])
    file.seek(0)
    snapshot.read_unrolls(file, other, np.array([0, 8, 1, 2, 3], np.int32))
    for restored, original in zip(contents(other, [0, 8, 1, 2, 3]), contents(store, [7, 2, 11, 4, 5]), strict=True):
        np.testing.assert_array_equal(restored, original)
    for now, then in zip(contents(other, [9, 10, 11]), before, strict=True):
        np.testing.assert_array_equal(now, then)


def test_bytes_of_a_file_are_those_of_its_unrolls():
    store, file = filled(0), io.BytesIO()
    snapshot.write_snapshot(file, store, np.arange(SLOTS, dtype=np.int32), {})
    assert SLOTS * store.nbytes_each < len(file.getvalue()) < SLOTS * store.nbytes_each + 10_000


def test_other_unrolls_are_refused():
    store, file = filled(0), io.BytesIO()
    snapshot.write_snapshot(file, store, np.arange(4, dtype=np.int32), {})
    longer = UnrollStore(SPEC, LENGTH + 1, SLOTS)
    with pytest.raises(snapshot.BadSnapshot, match=r"int32\[4, 3\] does not go where int32\[4, 4\] belongs"):
        snapshot.read_unrolls(io.BytesIO(file.getvalue()), longer, np.arange(4, dtype=np.int32))
    np.testing.assert_array_equal(contents(longer, [0, 1])[0], 0)


@pytest.mark.usefixtures("piece_bytes")
def test_damage_is_told():
    store, file = filled(0), io.BytesIO()
    snapshot.write_snapshot(file, store, np.arange(4, dtype=np.int32), {"a": np.zeros(3)})
    slots = np.arange(4, dtype=np.int32)
    with pytest.raises(snapshot.BadSnapshot, match="can't be read"):
        snapshot.read_unrolls(io.BytesIO(file.getvalue()[:-50]), store, slots)
    with pytest.raises(snapshot.BadSnapshot, match="can't be read"):
        snapshot.read_arrays(io.BytesIO(b"nonsense"))
    nothing = io.BytesIO()
    snapshot.write_snapshot(nothing, store, slots[:0], {"a": np.zeros(3)})
    with pytest.raises(snapshot.BadSnapshot, match="0 tensors do not go where 7 belong"):
        snapshot.read_unrolls(io.BytesIO(nothing.getvalue()), store, slots)
