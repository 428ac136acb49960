import os

import pytest

from seed_rl.reporting.appended import AppendedFile


def test_records_stand_one_after_the_other(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"before\n")
    file = AppendedFile(str(path))
    file.append(b"one\n")
    assert path.read_bytes() == b"before\none\n", "at once, not when it is closed"
    file.append(b"two\n")
    file.close()
    assert path.read_bytes() == b"before\none\ntwo\n"


def test_the_file_appears_with_its_first_record(tmp_path):
    file = AppendedFile(str(tmp_path / "file"))
    assert os.listdir(tmp_path) == []
    file.append(b"")
    file.close()
    assert os.listdir(tmp_path) == ["file"]


def test_a_directory_that_appears_later_is_found(tmp_path):
    file = AppendedFile(str(tmp_path / "later" / "file"))
    with pytest.raises(FileNotFoundError):
        file.append(b"one\n")
    os.mkdir(tmp_path / "later")
    file.append(b"two\n")
    file.close()
    assert (tmp_path / "later" / "file").read_bytes() == b"two\n"
