"""Archives come back as they were, and damaged or odd ones are refused."""

import io
import struct
import zipfile

import ml_dtypes
import numpy as np
import pytest

from seed_rl.system import archives
from seed_rl.system.archives import Archive, BadArchive

ARRAYS = {
    "a": np.arange(6, dtype=np.float32).reshape(2, 3),
    "b/c": np.array(3, np.int64),
    "none": np.zeros((0, 3), np.uint8),
    "columns": np.asfortranarray(np.arange(6).reshape(2, 3)),
    "flags": np.array([True, False]),
}


def written(arrays):
    file = io.BytesIO()
    with archives.writing(file) as add:
        for name, array in arrays.items():
            add(name, array)
    return file


def assert_same(found):
    for name, array in found.items():
        np.testing.assert_array_equal(array, ARRAYS[name], strict=True)


def test_bfloat16_comes_back():
    array = np.array([[1.5], [-2]], ml_dtypes.bfloat16)
    found = Archive(written({"one": array, "other": np.float32(3)}))
    assert list(found) == ["one", "other"]
    np.testing.assert_array_equal(found["one"], array, strict=True)


def test_arrays_come_back_and_numpy_reads_them_too():
    file = written(ARRAYS)
    for found in (Archive(file), np.load(io.BytesIO(file.getvalue()))):
        assert list(found) == list(ARRAYS)
        assert_same(found)


def test_no_array_of_a_damaged_archive_is_other_than_it_was():
    content = written(ARRAYS).getvalue()
    parts = [content[:size] for size in (0, 1, 31, len(content) // 2, len(content) - 1)]
    for byte in range(len(content)):
        parts.append(content[:byte] + bytes([content[byte] ^ 1 << byte % 8]) + content[byte + 1 :])
    reasons = []
    for damaged in parts:
        try:
            assert_same(dict(Archive(io.BytesIO(damaged))))  # one may be missing
        except BadArchive as error:
            reasons.append(str(error))
    assert len(reasons) > sum(array.nbytes for array in ARRAYS.values())
    assert all(map(str.isprintable, reasons))


def zipped(members):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in members:
            archive.writestr(name, content)
    return file


def npy(descr="'<f4'", shape="(2,)", data=bytes(8)):
    return headed(f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}\n".encode(), data)


def headed(text, data=b""):
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + data


ODD = {
    "pickled objects": npy("'|O'", data=b"cos\nsystem\n(S'true'\ntR."),
    "a structure": npy("[('a', '<f4')]"),
    "a size that overflows": npy(shape="(4294967296, 4294967296)"),
    "more than there is memory": npy(shape=f"({1 << 50},)"),
    "too many axes": npy(shape=f"({'1, ' * 99})"),
    "too little": npy(data=bytes(7)),
    "too much": npy(data=bytes(12)),
    "code": npy("__import__('os').abort()"),
    "nothing": b"",
    "a header that doesn't end": headed(b"("),
    "another version": b"\x93NUMPY\x03\x00" + npy()[8:],
    "sizes below zero": npy(shape="(-1, -2)"),
    "nothing, of an endless axis": npy(shape=f"(0, {1 << 62})", data=b""),
}


@pytest.mark.parametrize("content", ODD.values(), ids=ODD)
def test_what_is_no_array_of_numbers_is_refused(content):
    archive = Archive(zipped([("a.npy", content)]))
    with pytest.raises(BadArchive, match="its arrays can't be read: |'a' is no array of numbers"):
        archive["a"]


def test_archives_that_would_take_more_memory_than_they_have_bytes_are_refused():
    one_of_two = zipped([("a.npy", npy())])
    with zipfile.ZipFile(one_of_two, "a", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("b.npy", npy())
    with pytest.raises(BadArchive, match="its arrays are compressed"):
        Archive(one_of_two)
    with pytest.warns(UserWarning, match="Duplicate"):
        twice = zipped([("a.npy", npy())] * 2)
    member = zipped([("a.npy", npy())]).getvalue()
    begin, end = member.rindex(b"PK\x01\x02"), member.rindex(b"PK\x05\x06")
    entries = b"".join(member[begin:end].replace(b"a.npy", b"%05d" % n) for n in range(100))  # of the same bytes
    tail = struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, 100, 100, len(entries), begin, 0)
    for odd in (twice, io.BytesIO(member[:begin] + entries + tail)):
        with pytest.raises(BadArchive, match="names or sizes of its arrays contradict each other"):
            Archive(odd)
