"""What network file systems do that others don't: files that are replaced while they are read, and locks that fail."""

import errno
import fcntl
import io
import os
from unittest import mock

import pytest

from seed_rl import foreign
from seed_rl.experiment import config_files
from seed_rl.reporting import metrics
from seed_rl.runs.run_directory import CannotUse, run_directory
from seed_rl.weights import checkpoints


class Replaced(io.FileIO):
    """A file that another one has replaced on the server."""

    def readinto(self, buffer):
        raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))


@pytest.mark.parametrize(
    ("name", "read"),
    [
        ("config.json", lambda folder: foreign.read_json_object(f"{folder}/config.json")),
        ("best.npz", lambda folder: checkpoints.load(f"{folder}/best.npz")),
        (metrics.FILE, metrics.read),
    ],
)
def test_a_file_that_is_replaced_while_it_is_read_is_read_again_once(name, read, tmp_path, monkeypatch):
    path = str(tmp_path / name)
    if name == "best.npz":
        checkpoints.write(path, {}, {"env_frames": 1})
    else:
        (tmp_path / name).write_text('{"env_frames": 1}\n')
    expected, opened, stale = read(tmp_path), [], 1

    def open_stale(path, mode):
        opened.append(path)
        return io.BufferedReader(Replaced(path)) if len(opened) <= stale else open(path, mode)

    monkeypatch.setattr(foreign, "open", open_stale, raising=False)
    assert read(tmp_path) == expected
    assert opened == [path, path]
    stale = 4
    with pytest.raises((OSError, checkpoints.CheckpointError), match="Stale file handle"):
        read(tmp_path)
    assert opened == 4 * [path], "no more than once"


def test_a_lock_that_cannot_be_had_is_one_sentence_with_a_remedy(tmp_path, monkeypatch):
    monkeypatch.setattr(fcntl, "flock", mock.Mock(side_effect=OSError(errno.ENOLCK, "No locks available")))
    logdir = f"{tmp_path}/run"
    why = r"its file system gives no lock \(No locks available\): choose a local"
    with pytest.raises(CannotUse, match=f"--logdir {logdir} can't be used: {why}"):
        run_directory(logdir, config_files.load("catch/vtrace"), logdir).__enter__()
