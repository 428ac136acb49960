"""Archives: named arrays in an ordinary .npz file (no pickled objects), which no damage goes unnoticed in.

Its last bytes, the comment of the .npz archive, are the SHA-256 of all others. Nothing in it is compressed, so that it
takes no more memory than its size.
"""

import contextlib
import functools
import hashlib
import re
import zipfile
from collections.abc import Callable, Iterator, Mapping
from typing import IO, Any

import numpy as np

from seed_rl.foreign import shortened
from seed_rl.system.files import explained
from seed_rl.system.host_memory import free_host_memory

_CHECKSUM_BYTES = hashlib.sha256().digest_size
_PIECE_BYTES = 1 << 20
_HEADER = re.compile(
    rb"\x93NUMPY\x01\x00..\{'descr': '([<|][biuf]\d{1,3})', 'fortran_order': (True|False), "
    rb"'shape': \(([\d, ]*)\), \} *\n",
    re.DOTALL,
)
"""The header of an array, as NumPy writes it."""


class BadArchive(ValueError):
    """A file that is no archive, or a damaged one; the message is the reason."""


# An archive may be odd with a valid checksum, too.
_ODD = (OSError, EOFError, ValueError, TypeError, RuntimeError, OverflowError, zipfile.BadZipFile)
_reading = functools.partial(explained, BadArchive, "it is no archive of arrays", *_ODD)


class _Hashed:
    """A file to be written whose last bytes are replaced by the SHA-256 of all others."""

    def __init__(self, file: IO[bytes]):
        self._file, self._hash, self._held = file, hashlib.sha256(), b""

    def write(self, data: Any) -> int:
        """Writes what can't be among the last bytes, and holds the rest back."""
        known = self._held + data
        ready, self._held = memoryview(known)[:-_CHECKSUM_BYTES], known[-_CHECKSUM_BYTES:]
        self._hash.update(ready)
        self._file.write(ready)
        return len(data)

    def flush(self) -> None:
        """Passes on what is written."""
        self._file.flush()

    def finish(self) -> None:
        """Writes the checksum."""
        self._file.write(self._hash.digest())


@contextlib.contextmanager
def writing(file: IO[bytes]) -> Iterator[Callable[[str, np.ndarray], None]]:
    """A function that adds an array under a name to an archive, of which no copy is held in memory."""
    hashed = _Hashed(file)
    with zipfile.ZipFile(hashed, "w", zipfile.ZIP_STORED) as archive:  # type: ignore[call-overload]

        def add(name: str, array: np.ndarray) -> None:
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.asarray(array), version=(1, 0), allow_pickle=False)

        yield add
        archive.comment = bytes(_CHECKSUM_BYTES)  # reserves them
    hashed.finish()


class Archive(Mapping[str, np.ndarray]):
    """The arrays of an archive by name, each read when it is asked for, from the file, which must still be open."""

    def __init__(self, file: IO[bytes]):
        """
        Raises:
          BadArchive: it is none, or damaged; arrays raise it too.
        """
        left, checksum = file.seek(0, 2) - _CHECKSUM_BYTES, hashlib.sha256()
        size = left
        file.seek(0)
        while left > 0 and (piece := file.read(min(left, _PIECE_BYTES))):
            checksum.update(piece)
            left -= len(piece)
        if file.read() != checksum.digest():
            raise BadArchive("its checksum doesn't match its content")
        with _reading():
            self._archive = zipfile.ZipFile(file)
            infos = self._archive.infolist()
            self._infos = {info.filename.removesuffix(".npy"): info for info in infos}
            if any(info.compress_type != zipfile.ZIP_STORED for info in infos):
                raise BadArchive("its arrays are compressed")
            if len(self._infos) < len(infos) or sum(info.file_size for info in infos) > size:
                raise BadArchive("names or sizes of its arrays contradict each other")

    def __getitem__(self, name: str) -> np.ndarray:
        info = self._infos[name]
        if info.file_size > free_host_memory():
            raise BadArchive(f"{shortened(name)} has {info.file_size:,} bytes, more than there is free memory")
        with _reading():
            content = self._archive.read(info)
            header = _HEADER.match(content)
            if header is None:
                raise BadArchive(f"{shortened(name)} is no array")
            descr, is_fortran, shape = header[1].decode(), header[2] == b"True", header[3].decode()
            values = np.frombuffer(memoryview(content)[header.end() :], descr)
            return values.reshape([int(n) for n in shape.split(",") if n.strip()], order="F" if is_fortran else "C")

    def __iter__(self) -> Iterator[str]:
        return iter(self._infos)

    def __len__(self) -> int:
        return len(self._infos)
