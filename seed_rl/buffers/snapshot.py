"""Snapshots of a store on disk, written piece by piece without a second copy of the unrolls in memory."""

from collections.abc import Iterator, Mapping
from typing import IO

import numpy as np

from seed_rl.buffers.rows import Rows
from seed_rl.buffers.unroll_store import Unrolls
from seed_rl.system.archives import Archive, BadArchive, writing

PIECE_BYTES = 64_000_000
"""Bytes of unrolls copied out of a store at a time."""
_UNROLLS = "unrolls/"  # what names of their arrays begin with
_PLACES = f"{_UNROLLS}places"  # int32 [n, window]: which of the steps, in the order of their places; -1: none


def write_snapshot(file: IO[bytes], unrolls: Unrolls, slots: np.ndarray, arrays: Mapping[str, np.ndarray]) -> None:
    """Write named arrays, then the finished unrolls in `slots`, int32 [n]; others may be written to meanwhile."""
    places = unrolls.pool.places[slots]
    stored = np.unique(places[places != unrolls.pool.num_places])
    numbers = np.searchsorted(stored, places).astype(np.int32)
    with writing(file) as add:
        for name, array in arrays.items():
            add(name, array)
        add(_PLACES, np.where(places == unrolls.pool.num_places, np.int32(-1), numbers))
        for prefix, rows, indices in _pieces(unrolls, slots, stored):
            for leaf, of_leaf in enumerate(rows.get(indices)):
                add(f"{prefix}{leaf:03d}", of_leaf)


def arrays_of(snapshot: Archive) -> dict[str, np.ndarray]:
    """The named arrays of an archive written by `write_snapshot`, without the unrolls."""
    return {name: snapshot[name] for name in snapshot if not name.startswith(_UNROLLS)}


def read_unrolls(snapshot: Archive, unrolls: Unrolls, slots: np.ndarray) -> None:
    """Read the unrolls of a snapshot, in their order, into `slots`, int32 [n]; raise ValueError, or
    BadArchive with the reason, if odd."""
    if _PLACES not in snapshot:
        raise BadArchive("it is of an earlier version, which stored steps in another way")
    pool, numbers = unrolls.pool, snapshot[_PLACES]
    if numbers.shape != pool.places[slots].shape or numbers.dtype != np.int32 or numbers.min(initial=0) < -1:
        raise ValueError(f"expected places int32{list(pool.places[slots].shape)}, got {numbers.dtype}{numbers.shape}")
    if (needed := int(numbers.max(initial=-1)) + 1) > pool.num_free_places:
        room = f"there is room for {pool.num_free_places:,} with these settings"
        raise BadArchive(f"it has {needed:,} steps, and {room} (fewer environments, or a smaller Replay.capacity)")
    places = pool.acquire_places(needed)
    left = {name for name in snapshot if name.startswith(_UNROLLS)} - {_PLACES}
    for prefix, rows, indices in _pieces(unrolls, slots, places):
        names = sorted(name for name in left if name.startswith(prefix))
        rows.set(indices, [snapshot[name] for name in names])
        left.difference_update(names)
    if left:
        raise ValueError(f"it holds more than {len(slots)} unrolls")
    pool.finish(slots, np.append(places, pool.num_places)[numbers])  # -1: the spare place
    pool.release_places(places)


def _pieces(unrolls: Unrolls, slots: np.ndarray, places: np.ndarray) -> Iterator[tuple[str, Rows, np.ndarray]]:
    """Yield what the names of each piece's arrays begin with, and rows of at most `PIECE_BYTES` by their indices."""
    observations, steps = unrolls.store.steps
    tables = {"states": (unrolls.store.states, slots), "observations": (observations, places), "steps": (steps, places)}
    for kind, (rows, indices) in tables.items():
        step = max(1, PIECE_BYTES // max(1, rows.nbytes_each))
        for piece, begin in enumerate(range(0, len(indices), step)):
            yield f"{_UNROLLS}{kind}/{piece:06d}/", rows, indices[begin : begin + step]
