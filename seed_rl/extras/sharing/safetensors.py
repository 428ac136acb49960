"""Safetensors files, the Hugging Face Hub's format of weights: a JSON header, then the content of the arrays."""

import json
import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from seed_rl.foreign import json_object
from seed_rl.system.archives import BadArchive
from seed_rl.system.files import complete_or_absent, explained


def save(path: str, arrays: Mapping[str, np.ndarray], metadata: Mapping[str, str]) -> None:
    """Write arrays of floats or integers under their names, and texts about them.

    Raises:
      OSError: the file can't be written; an older one of that name is untouched.
    """
    header: dict[str, Any] = {"__metadata__": dict(metadata)}
    end = 0
    for name, array in arrays.items():
        begin, end = end, end + array.nbytes
        dtype = f"{array.dtype.kind.upper()}{8 * array.dtype.itemsize}"
        header[name] = {"dtype": dtype, "shape": array.shape, "data_offsets": [begin, end]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)  # aligns the arrays
    with complete_or_absent(path) as file:
        file.write(len(text).to_bytes(8, "little") + text + b"".join(array.tobytes() for array in arrays.values()))


def load(data: bytes) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """Read the arrays in the content of a file by name, and the texts about them.

    Raises:
      BadArchive: it is damaged, or holds other types than floats and integers.
    """
    begin, arrays = 8 + int.from_bytes(data[:8], "little"), {}
    errors = AttributeError, KeyError, TypeError, ValueError, OverflowError
    with explained(BadArchive, "it is not a safetensors file", *errors):
        header = json_object(data[8:begin])
        metadata = {str(name): str(text) for name, text in header.pop("__metadata__", {}).items()}
        for name, entry in header.items():
            first, end = entry["data_offsets"]
            kind, bits = re.fullmatch(r"([FIU])(8|16|32|64)", entry["dtype"]).groups()  # type: ignore[union-attr]
            content = memoryview(data)[begin:][first:end]
            arrays[name] = np.frombuffer(content, f"<{kind.lower()}{int(bits) // 8}").reshape(entry["shape"])
    return arrays, metadata
