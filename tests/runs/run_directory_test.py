"""What is in the directory of a run from its beginning, on a disk that may be full."""

import logging
import socket
import subprocess
import sys

import pytest

from seed_rl.experiment import config_files
from seed_rl.experiment.saved_config import load_saved, saved_settings
from seed_rl.runs.run_directory import CannotUse, LogFile, PrintableFormatter, record_configuration, run_directory
from tests.support.full_disk import largest_file


def emit(log, *messages):
    for message in messages:
        log.handle(logging.makeLogRecord({"msg": message}))


def test_a_full_disk_is_reported_once_and_without_a_traceback(tmp_path, capsys):
    path = tmp_path / "learner.log"
    log = LogFile(str(path))
    log.setFormatter(PrintableFormatter("%(message)s"))
    emit(log, "before")
    with largest_file(path.stat().st_size):
        emit(log, "while", "it is full")
    emit(log, "after\x1b[2J\nERROR of another")  # can neither command a terminal nor pass for a line of its own
    assert capsys.readouterr().err == f"seed_rl: {path} can't be written: File too large\n"
    assert path.read_text().splitlines() == ["before", "while", "it is full", "after\\x1b[2J", "  ERROR of another"]
    with largest_file(path.stat().st_size):
        emit(log, "lost")
        log.close()
    assert capsys.readouterr().err == ""


def test_a_run_ends_as_it_would_where_its_error_stream_cannot_be_written():
    program = """
import contextlib, os, sys
from seed_rl.system.native_output import native_stderr_to
with native_stderr_to(os.devnull), contextlib.suppress(OSError):
    print("lost", file=sys.stderr)
sys.exit(7)
"""
    with open("/dev/full", "wb") as full:
        assert subprocess.run([sys.executable, "-c", program], stderr=full).returncode == 7


def test_a_socket_that_a_killed_learner_left_behind_does_not_keep_its_run_from_continuing(tmp_path):
    with socket.socket(socket.AF_UNIX) as learner:
        learner.bind(str(tmp_path / "learner.sock"))
    with run_directory(str(tmp_path), config_files.load("catch/vtrace"), "the run"):
        pass


def test_a_configuration_says_what_this_machine_chose_and_cannot_be_written_on_a_full_disk(tmp_path):
    experiment = config_files.load("catch/vtrace", ["VTrace.dtype = 'auto'"])
    record_configuration(experiment, str(tmp_path))
    assert saved_settings(str(tmp_path))["agent.dtype.chosen"] == experiment.agent.for_device().dtype
    assert load_saved(str(tmp_path)) == experiment
    full = str(tmp_path / "full")
    with largest_file(10), pytest.raises(CannotUse, match=f"^the configuration can't be written into {full}: File too"):
        record_configuration(experiment, full)
    assert not (tmp_path / "full/config.json").exists()
