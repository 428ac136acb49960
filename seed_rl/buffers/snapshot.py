"""Snapshots of a store on disk, written piece by piece: no second copy of the unrolls is ever in memory."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
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


def read_arrays(file: IO[bytes]) -> dict[str, np.ndarray]:
    """The named arrays of a snapshot, without its unrolls.

    Raises:
      BadSnapshot: it can't be read.
    """
    _check_is_archive(file)
    try:
        with np.load(file, allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files if not name.startswith("unrolls/")}
    except (OSError, EOFError, ValueError, KeyError, zipfile.BadZipFile) as error:
        raise BadSnapshot(f"it can't be read: {error}") from error


def read_unrolls(file: IO[bytes], store: UnrollStore, slots: np.ndarray) -> None:
    """Puts the unrolls of a snapshot into `slots` of a store, int32 [n], in the order in which they were written.

    Raises:
      BadSnapshot: it can't be read, or holds unrolls of other shapes or of another number.
    """
    _check_is_archive(file)
    try:
        with np.load(file, allow_pickle=False) as archive:
            pieces = _pieces(slots, store.nbytes_each)
            names = sorted(name for name in archive.files if name.startswith("unrolls/"))
            members = [[n for n in names if n.startswith(f"unrolls/{piece:06d}/")] for piece in range(len(pieces))]
            if sum(map(len, members)) != len(names):
                raise BadSnapshot(f"it holds more than {len(slots)} unrolls")
            for part, own in zip(pieces, members, strict=True):
                store.set_rows(part, [archive[name] for name in own])
    except BadSnapshot:
        raise
    except (OSError, EOFError, ValueError, KeyError, zipfile.BadZipFile) as error:
        raise BadSnapshot(f"it can't be read: {error}") from error


def _check_is_archive(file: IO[bytes]) -> None:
    """NumPy would report any other file as pickled objects."""
    if not zipfile.is_zipfile(file):
        raise BadSnapshot("it can't be read: it is no .npz file, or not all of one")
    file.seek(0)


def _pieces(slots: np.ndarray, nbytes_each: int) -> list[np.ndarray]:
    """The slots in groups whose unrolls take at most `PIECE_BYTES`."""
    step = max(1, PIECE_BYTES // nbytes_each)
    return [slots[begin : begin + step] for begin in range(0, len(slots), step)]


def _write(archive: zipfile.ZipFile, name: str, array: np.ndarray) -> None:
    with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
        np.lib.format.write_array(member, np.ascontiguousarray(array), allow_pickle=False)
