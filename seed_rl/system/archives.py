"""Archives: named arrays with checksums in an .npz file without pickled objects, written and read one at a time.

Nothing in them is compressed, so that they take no more memory than their size.
"""

import contextlib
import functools
import io
import math
import zipfile
from collections.abc import Callable, Iterator, Mapping
from typing import IO

import numpy as np

from seed_rl.foreign import short_repr
from seed_rl.system.files import explaining


class BadArchive(ValueError):
    """A file that is no archive, or a damaged one; the message is the reason."""


_reading = functools.partial(explaining, BadArchive, "its arrays can't be read", Exception)
_BFLOAT16 = ":bfloat16"  # end of the name of an array of such bits
_HEADERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}


@contextlib.contextmanager
def writing(file: IO[bytes]) -> Iterator[Callable[[str, np.ndarray], None]]:
    """Yield a function that adds an array under a name to an archive, of which no copy is held in memory."""
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:

        def add(name: str, array: np.ndarray) -> None:
            array = np.asarray(array)
            if array.dtype.name == "bfloat16":  # which the format doesn't know
                name, array = f"{name}{_BFLOAT16}", array.view(np.uint16)
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, array, allow_pickle=False)

        yield add


class Archive(Mapping[str, np.ndarray]):
    """The arrays of an archive by name, read on access from the file, which the caller keeps open.

    An archive that is none or damaged raises BadArchive, also on access to an array.
    """

    def __init__(self, file: IO[bytes]):
        with _reading():
            self._archive = zipfile.ZipFile(file)
            infos = self._archive.infolist()
            self._infos = {info.filename.removesuffix(".npy").removesuffix(_BFLOAT16): info for info in infos}
            if any(info.compress_type != zipfile.ZIP_STORED for info in infos):
                raise BadArchive("its arrays are compressed")
            if len(self._infos) < len(infos) or sum(info.file_size for info in infos) > file.seek(0, io.SEEK_END):
                raise BadArchive("names or sizes of its arrays contradict each other")

    def __getitem__(self, name: str) -> np.ndarray:
        info = self._infos[name]
        with _reading():
            content = io.BytesIO(self._archive.read(info))  # which compares the checksum
            shape, is_fortran, dtype = _HEADERS[np.lib.format.read_magic(content)](content)
            data = content.getbuffer()[content.tell() :]
            if dtype.kind not in "biuf" or math.prod(shape) * dtype.itemsize != len(data):  # before it takes memory
                raise BadArchive(f"{short_repr(name)} is no array of numbers")
            array = np.ndarray(shape, dtype, data, order="F" if is_fortran else "C").copy("K")
            if not info.filename.endswith(f"{_BFLOAT16}.npy"):
                return array
            import ml_dtypes  # comes with TensorFlow, which such an array needs

            return array.view(ml_dtypes.bfloat16)

    def __iter__(self) -> Iterator[str]:
        return iter(self._infos)

    def __len__(self) -> int:
        return len(self._infos)
