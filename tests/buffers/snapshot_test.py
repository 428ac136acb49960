"""Snapshots of a store: the same unrolls in other slots and places, in pieces that bound the memory of a copy."""

import io

import numpy as np
import pytest
import tensorflow as tf

from seed_rl.buffers import snapshot
from seed_rl.system.archives import Archive
from tests.buffers.unroll_store_test import empty, filled


@pytest.mark.parametrize(("states_each", "pieces"), [(2.9, 2), (0.5, 3)])
def test_a_snapshot_holds_arrays_and_unrolls_in_pieces_and_is_read_into_other_slots(states_each, pieces, monkeypatch):
    unrolls, other, slots = filled(history=1), empty(9, 30, history=1), np.array([3, 1, 0], np.int32)
    monkeypatch.setattr(snapshot, "PIECE_BYTES", int(states_each * unrolls.store.states.nbytes_each))
    snapshot.write_snapshot(file := io.BytesIO(), unrolls, slots, {"slots": slots, "count": np.array(7)})
    saved = Archive(file)
    assert len({name for name in saved if name.startswith("unrolls/states/")}) == pieces
    arrays = snapshot.arrays_of(saved)
    assert (list(arrays), arrays["slots"].tolist(), int(arrays["count"])) == (["slots", "count"], [3, 1, 0], 7)

    there = np.array([8, 2, 5], np.int32)
    snapshot.read_unrolls(saved, other, there)
    found, expected = (each.store.read(each.at(at)) for each, at in ((other, there), (unrolls, slots)))
    tf.nest.map_structure(np.testing.assert_array_equal, found, expected)
    assert other.pool.num_free_places == 30 - 9, "steps that unrolls share, or refer to, are stored once"
    other.pool.release(there)
    assert other.pool.num_free_places == 30
    with pytest.raises(ValueError, match=r"expected places int32\[2, 4\], got int32\(3, 4\)"):
        snapshot.read_unrolls(saved, other, there[:2])
