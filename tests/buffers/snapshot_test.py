"""Snapshots of a store: the same unrolls in other slots, in pieces that bound the memory of a copy."""

import io

import numpy as np
import pytest
import tensorflow as tf

from seed_rl.buffers import snapshot
from seed_rl.buffers.unroll_store import UnrollStore
from seed_rl.system.archives import Archive
from tests.buffers.unroll_store_test import LENGTH, SPEC, filled


@pytest.mark.parametrize(("unrolls_each", "pieces"), [(2.9, 2), (0.5, 3)])
def test_a_snapshot_holds_arrays_and_unrolls_in_pieces_and_is_read_into_other_slots(unrolls_each, pieces, monkeypatch):
    store, other, slots = filled(), UnrollStore(SPEC, LENGTH, 9), np.array([3, 1, 0], np.int32)
    monkeypatch.setattr(snapshot, "PIECE_BYTES", int(unrolls_each * store.nbytes_each))
    snapshot.write_snapshot(file := io.BytesIO(), store, slots, {"slots": slots, "count": np.array(7)})
    saved = Archive(file)
    assert len({name.split("/")[1] for name in saved if name.startswith("unrolls/")}) == pieces
    arrays = snapshot.arrays_of(saved)
    assert (list(arrays), arrays["slots"].tolist(), int(arrays["count"])) == (["slots", "count"], [3, 1, 0], 7)
    snapshot.read_unrolls(saved, other, np.array([8, 2, 5], np.int32))
    tf.nest.map_structure(np.testing.assert_array_equal, other.read([8, 2, 5]), store.read([3, 1, 0]))
    with pytest.raises(ValueError, match="it holds more than 2 unrolls"):
        snapshot.read_unrolls(saved, other, np.array([8, 2], np.int32))
