"""The log of a run, on a disk that is full for a while."""

import contextlib
import logging

from seed_rl.runs.run_directory import LogFile, PrintableFormatter
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


def test_other_mistakes_are_reported_as_usual(tmp_path, capsys):
    with contextlib.closing(LogFile(str(tmp_path / "learner.log"))) as log:
        log.handle(logging.makeLogRecord({"msg": "%d", "args": ("not a number",)}))
    assert "TypeError" in capsys.readouterr().err
