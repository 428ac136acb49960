import io

import numpy as np
import pytest
import tensorflow as tf

from seed_rl.buffers import snapshot
from seed_rl.buffers.snapshot import arrays_of, read_unrolls, write_snapshot
from seed_rl.buffers.unroll_store import UnrollStore
from seed_rl.system.archives import Archive, BadArchive
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


@pytest.fixture(params=[1, 100, 10_000])
def piece_bytes(request, monkeypatch):
    """Pieces of one unroll, of a few and of all."""
    monkeypatch.setattr(snapshot, "PIECE_BYTES", request.param)


@pytest.mark.usefixtures("piece_bytes")
def test_unrolls_come_back_in_other_slots_and_leave_the_rest_alone():
    store, other = filled(0), filled(1)
    before = contents(other, [9, 10, 11])
    assert not np.array_equal(contents(store, [9, 10, 11])[0], before[0])
    data = written(store, [7, 2, 11, 4, 5], counts=np.array([3, 4]))
    assert 5 * store.nbytes_each < len(data) < 5 * store.nbytes_each + 15_000
    np.testing.assert_equal(arrays_of(Archive(io.BytesIO(data))), {"counts": np.array([3, 4])})
    read(data, other, [0, 8, 1, 2, 3])
    for restored, original in zip(contents(other, [0, 8, 1, 2, 3]), contents(store, [7, 2, 11, 4, 5]), strict=True):
        np.testing.assert_array_equal(restored, original)
    for now, then in zip(contents(other, [9, 10, 11]), before, strict=True):
        np.testing.assert_array_equal(now, then)


def test_damage_and_other_unrolls_are_refused(monkeypatch):
    store, slots = filled(0), np.arange(4, dtype=np.int32)
    data = written(store, slots, a=np.zeros(3))
    for damaged in (data[:-50], b"nonsense"):
        with pytest.raises(BadArchive, match="its checksum doesn't match its content"):
            read(damaged, store, slots)
    middle = len(data) // 2  # of some unroll, where no structure would be missed
    with pytest.raises(BadArchive, match="its checksum"):
        read(data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :], store, slots)
    longer = UnrollStore(SPEC, LENGTH + 1, SLOTS)
    with pytest.raises(ValueError, match=r"expected int32\[4, 4\], got int32\[4, 3\]"):
        read(data, longer, slots)
    np.testing.assert_array_equal(contents(longer, [0, 1])[0], 0)
    with pytest.raises(ValueError, match="expected 8 tensors, got 0"):
        read(written(store, slots[:0]), store, slots)
    monkeypatch.setattr(snapshot, "PIECE_BYTES", 1)
    with pytest.raises(ValueError, match="it holds more than 2 unrolls"):
        read(written(store, [0, 1, 2]), store, [0, 1])
