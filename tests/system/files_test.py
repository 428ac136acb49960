"""Files that are never half written, places for sockets, and outages."""

import contextlib
import errno
import logging
import os
import socket
import tempfile
import time

import pytest

from seed_rl.errors import UsageError
from seed_rl.system import files
from seed_rl.system.files import Outage, complete_or_absent, socket_directory


def test_a_file_appears_when_it_is_complete(tmp_path):
    path = tmp_path / "file"
    path.write_text("old")
    with contextlib.suppress(KeyError), complete_or_absent(str(path)) as file:
        file.write(b"half")
        raise KeyError
    assert path.read_text() == "old"
    with complete_or_absent(str(path)) as file:
        file.write(b"new")
        assert path.read_text() == "old"
    assert path.read_text() == "new"
    assert os.listdir(tmp_path) == ["file"]


def test_an_outage_is_logged_when_it_starts_and_when_it_is_over_and_tolerates_errors_of_files_only(caplog):
    caplog.set_level(logging.INFO)
    outage = Outage("checkpoints", "training continues", logging.getLogger("tests"))
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    for error in (None, full, full, None, None, full):
        with outage.tolerating():
            if error:
                raise error
    failing = "checkpoints can't be written (No space left on device): training continues"
    assert [record.message for record in caplog.records] == [failing, "checkpoints can be written again", failing]
    with pytest.raises(KeyError), outage.tolerating():
        raise KeyError


@pytest.mark.parametrize("length", [60, 68, 69, 200])
def test_a_socket_has_a_place_however_long_the_name_of_the_temporary_directory(length, monkeypatch):
    with tempfile.TemporaryDirectory(dir="/tmp", prefix="x") as parent:
        os.makedirs(parent := os.path.join(parent, "y" * (length - len(parent) - 1)))
        monkeypatch.setattr(tempfile, "tempdir", parent)
        with socket_directory() as directory, socket.socket(socket.AF_UNIX) as server:
            server.bind(os.path.join(directory, "learner.sock"))
        assert directory.startswith(parent) == (length <= 68)
        assert not os.path.exists(directory)


def test_without_a_temporary_directory_there_is_a_sentence(monkeypatch, tmp_path):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "none"))
    monkeypatch.setattr(files, "_LONGEST_PARENT", 999)
    with pytest.raises(UsageError, match=r"learner's socket \(TMPDIR says where\): No such file"), socket_directory():
        pass


def test_directories_of_dead_sockets_are_removed(monkeypatch):
    with tempfile.TemporaryDirectory(dir="/tmp") as parent:
        monkeypatch.setattr(tempfile, "tempdir", parent)
        with socket_directory() as directory, socket.socket(socket.AF_UNIX) as alive:
            alive.bind(os.path.join(directory, "learner.sock"))
            alive.listen()
            here = os.path.basename(directory)[: len("seed_rl-12345678-")]
            for name, age in ((f"{here}dead", 99), (f"{here}beginning", 0), ("seed_rl-elsewhere-0", 99)):
                os.mkdir(f"{parent}/{name}")
                with socket.socket(socket.AF_UNIX) as server:
                    server.bind(f"{parent}/{name}/learner.sock")
                os.utime(f"{parent}/{name}/learner.sock", (0, time.time() - age))
            with socket_directory() as other:
                kept = {*map(os.path.basename, (directory, other)), f"{here}beginning", "seed_rl-elsewhere-0"}
                assert set(os.listdir(parent)) == kept
