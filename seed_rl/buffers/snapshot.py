"""Snapshots of a store on disk, written piece by piece without a second copy of the unrolls in memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import IO

import numpy as np

from seed_rl.buffers.unroll_store import UnrollStore
from seed_rl.system.archives import Archive, BadArchive, writing

PIECE_BYTES = 64_000_000
"""Bytes of unrolls copied out of a store at a time."""


def write_snapshot(file: IO[bytes], store: UnrollStore, slots: np.ndarray, arrays: Mapping[str, np.ndarray]) -> None:
    """Writes unrolls and named arrays to an archive.

    Args:
      file: a file open for writing.
      store: the store that holds the unrolls; its other slots may be written to meanwhile.
      slots: int32 [n]: the slots of the unrolls, in the order in which to write them.
      arrays: further arrays to store.
    """
    with writing(file) as add:
        for name, array in arrays.items():
            add(name, array)
        for piece, part in enumerate(_pieces(slots, store.nbytes_each)):
            for leaf, rows in enumerate(store.get_rows(part)):
                add(f"unrolls/{piece:06d}/{leaf:03d}", rows)


class Snapshot:
    """The content of a file written by `write_snapshot`."""

    def __init__(self, file: IO[bytes]):
        """
        Args:
          file: a file that stays open for reading while this object is used.

        Raises:
          BadArchive: the file is damaged or not an archive.
        """
        self._archive = Archive(file)
        self._rows = sorted(name for name in self._archive if name.startswith("unrolls/"))

    def arrays(self) -> dict[str, np.ndarray]:
        """The named arrays, without the unrolls."""
        return {name: self._archive[name] for name in self._archive if name not in self._rows}

    def unrolls(self, store: UnrollStore, slots: np.ndarray) -> None:
        """Reads the unrolls into `slots` of a store, int32 [n], in the order in which they were written.

        Raises:
          BadArchive: the unrolls can't be read, have the wrong shapes, or do not fit into the slots.
        """
        pieces = _pieces(slots, store.nbytes_each)
        members = [[n for n in self._rows if n.startswith(f"unrolls/{piece:06d}/")] for piece in range(len(pieces))]
        if sum(map(len, members)) != len(self._rows):
            raise BadArchive(f"it holds more than {len(slots)} unrolls")
        for part, own in zip(pieces, members, strict=True):
            try:
                store.set_rows(part, [self._archive[name] for name in own])
            except ValueError as error:
                raise BadArchive(f"it is not of such a replay: {error}") from error


def _pieces(slots: np.ndarray, nbytes_each: int) -> list[np.ndarray]:
    """Splits slots into groups whose unrolls take at most `PIECE_BYTES`."""
    step = max(1, PIECE_BYTES // nbytes_each)
    return [slots[begin : begin + step] for begin in range(0, len(slots), step)]
