"""The file of a journal: chunks that are complete or absent, and whose damage is noticed."""

import contextlib
import itertools

import pytest

from seed_rl.extras.repeating import file
from seed_rl.extras.repeating.file import JournalError, read

CHUNKS = [["run {}", "act 0 1"], ["act 0 2"], ["act 0 3", "weights"]]
LINES = [*itertools.chain(*CHUNKS)]


def write(path, chunks):
    """Append to a journal; return its sizes after each chunk."""
    writer, sizes = file.Writer(str(path)), []
    for lines in chunks:
        for line in lines:
            writer.write(line)
        writer.flush()
        sizes.append(path.stat().st_size)
    writer.close()
    return sizes


def test_a_kill_at_any_byte_leaves_complete_chunks_and_a_new_writer_continues_them(tmp_path):
    journal = tmp_path / file.NAME
    ends = write(journal, CHUNKS)
    data = journal.read_bytes()
    for size in range(ends[0], len(data) + 1):
        complete = [*itertools.chain(*CHUNKS[: sum(end <= size for end in ends)])]
        journal.write_bytes(data[:size])
        assert [*read(str(journal))] == complete
        if size % 7 == 0:  # a disk is slow
            write(journal, [["act 0 9"]])
            assert [*read(str(journal))] == [*complete, "act 0 9"]


def test_no_more_is_written_than_can_be_read(tmp_path, monkeypatch):
    monkeypatch.setattr(file, "MOST_BYTES", 80)
    journal = tmp_path / file.NAME
    for chunks in (CHUNKS, CHUNKS):
        with pytest.raises(OSError, match="File too large"):
            write(journal, chunks)
        assert [*read(str(journal))] == LINES[:3]


@pytest.mark.parametrize("bits", [0x01, 0x10, 0xFF])
def test_a_damaged_byte_is_found_or_looks_like_a_kill_in_the_last_chunk(tmp_path, bits):
    journal = tmp_path / file.NAME
    _, last, _ = write(journal, CHUNKS)
    data = journal.read_bytes()
    for at in range(len(data)):
        journal.write_bytes(data[:at] + bytes([data[at] ^ bits]) + data[at + 1 :])
        with contextlib.suppress(JournalError):
            lines = [*read(str(journal))]
            assert lines == LINES or (at >= last and lines == LINES[:3])  # all: the time in a header, for example


def test_missing_changed_and_absent_chunks_are_refused(tmp_path):
    journal = tmp_path / file.NAME
    first, second, _ = write(journal, CHUNKS)
    data = journal.read_bytes()
    for wrong, word in (
        (data[:first] + data[second:], "chunk 1 after .* was expected"),
        (data[first:], "chunk 0 after nothing was expected"),
        (data[: first - 9], "no complete chunk"),
        (b"hello, journal", "damaged"),
    ):
        journal.write_bytes(wrong)
        with pytest.raises(JournalError, match=word):
            [*read(str(journal))]
