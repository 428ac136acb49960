"""Archives with a valid checksum, whose content nothing else vouches for."""

import hashlib
import io
import struct
import zipfile

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


def test_arrays_come_back_and_numpy_reads_them_too():
    file = written(ARRAYS)
    for found in (Archive(file), np.load(io.BytesIO(file.getvalue()))):
        assert list(found) == list(ARRAYS)
        for name, array in ARRAYS.items():
            np.testing.assert_array_equal(found[name], array, strict=True)


def test_neither_a_damaged_bit_nor_a_missing_part_goes_unnoticed():
    content = written(ARRAYS).getvalue()
    parts = [content[:size] for size in (0, 1, 31, 32, 33, len(content) // 2, len(content) - 1)]
    for byte in range(len(content)):
        parts.append(content[:byte] + bytes([content[byte] ^ 1 << byte % 8]) + content[byte + 1 :])
    for damaged in parts:
        with pytest.raises(BadArchive, match="its checksum doesn't match its content"):
            Archive(io.BytesIO(damaged))


def signed(content):
    """The same with the checksum that its author would give it."""
    return io.BytesIO(content + hashlib.sha256(content).digest())


def zipped(members, compression=zipfile.ZIP_STORED):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", compression) as archive:
        for name, content in members:
            archive.writestr(name, content)
        archive.comment = bytes(32)
    return signed(file.getvalue()[:-32])


def npy(header, data=b""):
    text = header.encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + data


def header(descr="'<f4'", shape="(2,)"):
    return f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}"


ODD = {
    "pickled objects": npy(header("'|O'"), b"cos\nsystem\n(S'true'\ntR."),
    "a structure": npy(header("[('a', '<f4')]"), bytes(8)),
    "an unknown type": npy(header("'<i3'"), bytes(6)),
    "a size that overflows": npy(header(shape="(4294967296, 4294967296)"), bytes(8)),
    "a size of many digits": npy(header(shape=f"({'9' * 5000},)"), bytes(8)),
    "too many axes": npy(header(shape=f"({'1, ' * 99})"), bytes(4)),
    "too little": npy(header(), bytes(7)),
    "too much": npy(header(), bytes(12)),
    "code": npy("__import__('os').abort()", bytes(8)),
    "nothing": b"",
}


@pytest.mark.parametrize("content", ODD.values(), ids=ODD)
def test_what_is_no_array_of_numbers_is_refused(content):
    archive = Archive(zipped([("a.npy", content)]))
    with pytest.raises(BadArchive, match="it is no archive of arrays: |'a' is no array"):
        archive["a"]


def test_compressed_arrays_and_those_that_share_bytes_are_refused():
    """They would take more memory than the file has bytes."""
    array = npy(header(), bytes(8))
    with pytest.raises(BadArchive, match="its arrays are compressed"):
        Archive(zipped([("a.npy", array)], zipfile.ZIP_DEFLATED))
    member = zipped([("a.npy", array)]).getvalue()
    begin = member.rindex(b"PK\x01\x02")  # of the table, which then names the same bytes 100 times
    end = member.rindex(b"PK\x05\x06")
    entries = b"".join(member[begin:end].replace(b"a.npy", b"%05d" % n) for n in range(100))
    tail = struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, 100, 100, len(entries), begin, 32)
    with pytest.raises(BadArchive, match="names or sizes of its arrays contradict each other"):
        Archive(signed(member[:begin] + entries + tail))


def test_an_array_larger_than_the_free_memory_is_not_read(monkeypatch):
    archive = Archive(written(ARRAYS))
    monkeypatch.setattr(archives, "free_host_memory", lambda: 100)
    with pytest.raises(BadArchive, match="'a' has 152 bytes, more than there is free memory"):
        archive["a"]


def test_an_array_given_twice_is_refused():
    with pytest.warns(UserWarning, match="Duplicate"):
        twice = zipped([("a.npy", npy(header(), bytes(8)))] * 2)
    with pytest.raises(BadArchive, match="contradict"):
        Archive(twice)


def test_random_damage_with_a_checksum_of_its_own_is_refused_or_gives_arrays():
    rng, content = np.random.default_rng(1), written(ARRAYS).getvalue()[:-32]
    reasons = []
    for _ in range(300):
        damaged = bytearray(content)
        for place in rng.integers(len(content), size=rng.integers(1, 9)):
            damaged[place] = rng.integers(256)
        try:
            dict(Archive(signed(bytes(damaged))))
        except BadArchive as error:
            reasons.append(str(error))
    assert len(reasons) > 150
    assert all(map(str.isprintable, reasons))
