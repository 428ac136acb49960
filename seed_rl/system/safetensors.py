"""Safetensors files, the Hugging Face Hub's format of weights: a JSON header, then the content of the arrays."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from seed_rl.foreign import json_object
from seed_rl.system.archives import BadArchive
from seed_rl.system.files import complete_or_absent

_METADATA = "__metadata__"
_KINDS = {"f": "F", "i": "I", "u": "U"}
_DTYPE = re.compile(r"([FIU])(8|16|32|64)")
_ALIGNMENT = 8  # bytes


def save(path: str, arrays: Mapping[str, np.ndarray], metadata: Mapping[str, str]) -> None:
    """Write arrays of floats or integers under their names, with texts that describe them.

    Raises:
      OSError: the file can't be written; an older one of that name is untouched.
    """
    header: dict[str, Any] = {_METADATA: dict(metadata)}
    end = 0
    for name, array in arrays.items():
        begin, end = end, end + array.nbytes
        dtype = f"{_KINDS[array.dtype.kind]}{8 * array.dtype.itemsize}"
        header[name] = {"dtype": dtype, "shape": list(array.shape), "data_offsets": [begin, end]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % _ALIGNMENT)
    with complete_or_absent(path) as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for array in arrays.values():
            file.write(array.astype(array.dtype.newbyteorder("<")).tobytes())


def load(data: bytes) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """Read the arrays in the content of a file by name, and its metadata.

    Raises:
      BadArchive: it is damaged, or holds other types than floats and integers.
    """
    begin = 8 + int.from_bytes(data[:8], "little")
    try:
        header = json_object(data[8:begin])
        metadata = {str(name): str(text) for name, text in header.pop(_METADATA, {}).items()}
        return {name: _array(memoryview(data)[begin:], entry) for name, entry in header.items()}, metadata
    except (AttributeError, KeyError, TypeError, ValueError, OverflowError) as error:
        raise BadArchive(f"it is no safetensors file: {error}") from error


def _array(content: memoryview, entry: Mapping[str, Any]) -> np.ndarray:
    dtype, shape, (first, end) = _DTYPE.fullmatch(str(entry["dtype"])), entry["shape"], entry["data_offsets"]
    if dtype is None:
        raise ValueError(f"expected floats or integers, got {entry['dtype']}")
    kind = np.dtype(f"<{dtype[1].lower()}{int(dtype[2]) // 8}")
    if not 0 <= first <= end <= len(content) or math.prod(shape) * kind.itemsize != end - first:
        raise ValueError(f"shape {shape} and offsets {[first, end]} contradict each other or the file's size")
    return np.frombuffer(content[first:end], kind).reshape(shape)
