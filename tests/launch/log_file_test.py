"""A log file on a full disk."""

import contextlib
import logging
import resource

import pytest

from seed_rl.launch.log_file import LogFile


@contextlib.contextmanager
def files_end_at(nbytes):
    """Files of this process can't grow beyond so many bytes, as on a full disk (SIGXFSZ is ignored by Python)."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (nbytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.fixture
def log(tmp_path):
    logger = logging.getLogger("seed_rl.tests.log_file")
    logger.setLevel(logging.INFO)
    handler = LogFile(str(tmp_path / "learner.log"))
    logger.addHandler(handler)
    yield logger
    logger.removeHandler(handler)
    handler.close()


def test_a_full_disk_is_told_once_and_without_a_traceback(log, tmp_path, capsys):
    path = tmp_path / "learner.log"
    log.info("before")
    with files_end_at(path.stat().st_size):
        for number in range(3):
            log.info("number %d", number)
    log.info("after")
    assert capsys.readouterr().err == f"seed_rl: {path} can't be written: File too large\n"
    lines = path.read_text().splitlines()
    assert [line.split(": ")[1] for line in lines] == ["before", "number 0", "number 1", "number 2", "after"]


def test_closing_on_a_full_disk_is_quiet(tmp_path, capsys):
    path = tmp_path / "learner.log"
    handler = LogFile(str(path))
    with files_end_at(0):
        handler.emit(logging.makeLogRecord({"msg": "lost"}))
        handler.close()
    assert len(capsys.readouterr().err.splitlines()) == 1
    assert path.read_text() == ""


def test_other_mistakes_are_told_as_ever(tmp_path, capsys):
    handler = LogFile(str(tmp_path / "learner.log"))
    handler.emit(logging.makeLogRecord({"msg": "%d", "args": ("not a number",)}))
    handler.close()
    assert "TypeError" in capsys.readouterr().err
