"""Safetensors files as their specification has them: nothing in them is trusted."""

import json

import numpy as np
import pytest

from seed_rl.extras.sharing import safetensors
from seed_rl.system.archives import BadArchive

ARRAYS = {
    "a/kernel": np.arange(6, dtype=np.float16).reshape(2, 3),
    "b": np.array(3.5, np.float32),
    "none": np.zeros((0, 3), np.uint8),
    "columns": np.asfortranarray(np.arange(6, dtype=np.int64).reshape(2, 3)),
}


def file(header, content=b"\0\0\x80\x3f\0\0\0\x40"):
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + content


def entry(**changes):
    return {"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8], **changes}}


def test_a_file_of_another_writer_is_read():
    arrays, metadata = safetensors.load(file({**entry(), "__metadata__": {"format": "pt"}}))
    assert (list(arrays), arrays["a"].dtype, arrays["a"].tolist()) == (["a"], np.float32, [1, 2])
    assert metadata == {"format": "pt"}


def test_arrays_come_back_behind_an_aligned_header(tmp_path):
    path = tmp_path / "arrays.safetensors"
    safetensors.save(str(path), ARRAYS, {"origin": "here"})
    arrays, metadata = safetensors.load(data := path.read_bytes())
    assert (list(arrays), metadata) == (list(ARRAYS), {"origin": "here"})
    for name, array in ARRAYS.items():
        np.testing.assert_array_equal(arrays[name], array, strict=True)
    assert int.from_bytes(data[:8], "little") % 8 == 0


@pytest.mark.parametrize(
    "data",
    [
        *(b"", b"\xff" * 8, file([]), file({"a": 1}), file({"__metadata__": 1}), file(entry())[:-1]),
        *(file(entry(dtype=dtype)) for dtype in ("BOOL", 32)),
        *(file(entry(shape=shape)) for shape in ([3], [-1, -2], [2**40], "2")),
        *(file(entry(data_offsets=offsets)) for offsets in ([0], [8, 16], [-8, 0], [0, "8"])),
    ],
)
def test_a_damaged_file_is_refused(data):
    with pytest.raises(BadArchive, match="it is not a safetensors file: "):
        safetensors.load(data)
