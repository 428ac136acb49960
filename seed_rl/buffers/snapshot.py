"""Snapshots of a store on disk, written piece by piece without a second copy of the unrolls in memory."""

from collections.abc import Mapping
from typing import IO

import numpy as np

from seed_rl.buffers.unroll_store import UnrollStore
from seed_rl.system.archives import Archive, writing

PIECE_BYTES = 64_000_000
"""Bytes of unrolls copied out of a store at a time."""
_UNROLLS = "unrolls/"  # what names of their arrays begin with


def write_snapshot(file: IO[bytes], store: UnrollStore, slots: np.ndarray, arrays: Mapping[str, np.ndarray]) -> None:
    """Write named arrays, then the unrolls in `slots` of a store, int32 [n]; others may be written to meanwhile."""
    with writing(file) as add:
        for name, array in arrays.items():
            add(name, array)
        for piece, part in enumerate(_pieces(slots, store.nbytes_each)):
            for leaf, rows in enumerate(store.get_rows(part)):
                add(f"{_UNROLLS}{piece:06d}/{leaf:03d}", rows)


def arrays_of(snapshot: Archive) -> dict[str, np.ndarray]:
    """The named arrays of an archive written by `write_snapshot`, without the unrolls."""
    return {name: snapshot[name] for name in snapshot if not name.startswith(_UNROLLS)}


def read_unrolls(snapshot: Archive, store: UnrollStore, slots: np.ndarray) -> None:
    """Read the unrolls of a snapshot, in their order, into `slots` of a store, int32 [n]; raise ValueError if odd."""
    pieces = _pieces(slots, store.nbytes_each)
    rows = sorted(name for name in snapshot if name.startswith(_UNROLLS))
    members = [[name for name in rows if name.startswith(f"{_UNROLLS}{piece:06d}/")] for piece in range(len(pieces))]
    if sum(map(len, members)) != len(rows):
        raise ValueError(f"it holds more than {len(slots)} unrolls")
    for part, own in zip(pieces, members, strict=True):
        store.set_rows(part, [snapshot[name] for name in own])


def _pieces(slots: np.ndarray, nbytes_each: int) -> list[np.ndarray]:
    """Split slots into groups whose unrolls take at most `PIECE_BYTES`."""
    step = max(1, PIECE_BYTES // nbytes_each)
    return [slots[begin : begin + step] for begin in range(0, len(slots), step)]
