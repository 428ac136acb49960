"""Snapshots of a store on disk, written piece by piece: no second copy of the unrolls is ever in memory."""

from __future__ import annotations

import contextlib
import zipfile
from collections.abc import Iterator, Mapping
from typing import IO

import numpy as np

from seed_rl.buffers.unroll_store import UnrollStore

PIECE_BYTES = 64_000_000
"""Bytes of unrolls that are copied out of a store at a time."""


class BadSnapshot(ValueError):
    """A file that is not a snapshot of such a store; the message gives the reason."""


def write_snapshot(file: IO[bytes], store: UnrollStore, slots: np.ndarray, arrays: Mapping[str, np.ndarray]) -> None:
    """Writes unrolls and named arrays as an .npz file.

    Args:
      file: open for writing.
      store: where the unrolls are; other slots may be written to meanwhile.
      slots: int32 [n], whose unrolls are written, in this order.
      arrays: stored beside them.
    """
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED, allowZip64=True) as archive:
        for name, array in arrays.items():
            _write(archive, name, array)
        for piece, part in enumerate(_pieces(slots, store.nbytes_each)):
            for leaf, rows in enumerate(store.get_rows(part)):
                _write(archive, f"unrolls/{piece:06d}/{leaf:03d}", rows)


class Snapshot:
    """The content of a snapshot; see `open_snapshot`."""

    def __init__(self, archive: Mapping[str, np.ndarray]):
        self._archive = archive
        self._rows = sorted(name for name in archive if name.startswith("unrolls/"))

    def arrays(self) -> dict[str, np.ndarray]:
        """The named arrays, without the unrolls."""
        return {name: self._archive[name] for name in self._archive if name not in self._rows}

    def unrolls(self, store: UnrollStore, slots: np.ndarray) -> None:
        """Puts the unrolls into `slots` of a store, int32 [n], in the order in which they were written.

        Raises:
          BadSnapshot: they have other shapes, or are more.
        """
        pieces = _pieces(slots, store.nbytes_each)
        members = [[n for n in self._rows if n.startswith(f"unrolls/{piece:06d}/")] for piece in range(len(pieces))]
        if sum(map(len, members)) != len(self._rows):
            raise BadSnapshot(f"it holds more than {len(slots)} unrolls")
        for part, own in zip(pieces, members, strict=True):
            store.set_rows(part, [self._archive[name] for name in own])


@contextlib.contextmanager
def open_snapshot(file: IO[bytes]) -> Iterator[Snapshot]:
    """Reads a file of `write_snapshot`, open for reading.

    Raises:
      BadSnapshot: it can't be read; also when that is found out inside.
    """
    if not zipfile.is_zipfile(file):  # NumPy would report it as pickled objects
        raise BadSnapshot("it can't be read: it is no .npz file, or not all of one")
    file.seek(0)
    try:
        with np.load(file, allow_pickle=False) as archive:
            yield Snapshot(archive)
    except BadSnapshot:
        raise
    except (OSError, EOFError, ValueError, KeyError, zipfile.BadZipFile) as error:
        raise BadSnapshot(f"it can't be read: {error}") from error


def _pieces(slots: np.ndarray, nbytes_each: int) -> list[np.ndarray]:
    """The slots in groups whose unrolls take at most `PIECE_BYTES`."""
    step = max(1, PIECE_BYTES // nbytes_each)
    return [slots[begin : begin + step] for begin in range(0, len(slots), step)]


def _write(archive: zipfile.ZipFile, name: str, array: np.ndarray) -> None:
    with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
        np.lib.format.write_array(member, np.ascontiguousarray(array), allow_pickle=False)
