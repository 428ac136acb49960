"""What the doctor finds."""

import os
import resource
import shutil
import socket

import pytest

from seed_rl.launch import doctor
from seed_rl.launch.cli import main
from seed_rl.launch.flags import DEFAULT_TCP_ADDRESS


@pytest.fixture(scope="module")
def findings():
    return {finding.what: finding for finding in doctor.examine()}


def test_what_every_run_needs_is_there(findings):
    for what in ("Python", "TensorFlow", "packages", "machine", "unix sockets", "suites", "Atari"):
        assert findings[what].state == doctor.OK, findings[what]


def test_what_is_missing_comes_with_how_to_get_it(findings):
    missing = [finding for finding in findings.values() if finding.state != doctor.OK]
    assert all(": " in finding.text for finding in missing), missing
    assert set(findings) >= {"disk", "shared memory", "open files", "port", "ffmpeg", "football", "DeepMind Lab"}


def test_lines_fit_a_screen(findings):
    assert all("\n" not in finding.text for finding in findings.values())
    here = [
        finding for finding in findings.values() if finding.what not in ("Python", "disk", "suites")
    ]  # of any length
    assert max(len(finding.text) for finding in here) <= 100


def test_a_port_that_is_taken_is_told():
    host, port = DEFAULT_TCP_ADDRESS.split(":")
    with socket.socket() as taken:
        taken.bind((host, int(port)))
        taken.listen()
        state, text = doctor._port()
    assert state == doctor.OPTIONAL
    assert "--server_address chooses another" in text


def test_few_open_files_are_told():
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (512, before[1]))
    try:
        state, text = doctor._files()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    assert state == doctor.OPTIONAL
    assert text.startswith("512 may be open, ")
    assert "ulimit -n " in text


@pytest.mark.parametrize(
    ("check", "sentence"),
    [
        (doctor._disk, "--logdir may be on another disk"),
        (doctor._shared_memory, "docker run --shm-size=1g"),
    ],
)
def test_little_room_is_told(check, sentence, monkeypatch):
    usage = shutil.disk_usage("/")
    monkeypatch.setattr(shutil, "disk_usage", lambda place: usage._replace(free=10**6))
    state, text = check()
    assert state == doctor.OPTIONAL
    assert sentence in text


def test_the_disk_is_that_of_the_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert doctor._disk()[1].endswith(f"GB free in {tmp_path}")
    os.mkdir("runs")
    assert doctor._disk()[1].endswith(f"GB free in {tmp_path}/runs")


def test_what_is_installed_but_broken_does_not_end_the_examination(tmp_path, monkeypatch):
    def broken():
        raise OSError("libsomething.so:\nno such file")

    finding = doctor._finding("something", broken)
    assert finding == (doctor.BROKEN, "something", "OSError: libsomething.so: no such file")


def test_a_package_that_is_not_there_comes_with_how_to_get_it():
    state, text = doctor._package("no_such_package_of_anybody", "pip install it")()
    assert (state, text) == (doctor.OPTIONAL, "not installed: pip install it")


def test_the_list_of_experiments_has_a_line_each_that_fits_100_columns(capsys):
    assert main(["configs"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) > 15
    assert all(len(line) <= 100 and line.endswith(".") for line in lines), [x for x in lines if len(x) > 100]
    assert "  Pong with V-trace, sized for two cores." in next(line for line in lines if "vtrace_pong" in line)


@pytest.mark.parametrize("kind", ["", "file://"])
def test_a_log_directory_that_is_to_be_is_looked_at(kind, tmp_path):
    state, text = doctor._log_directory(f"{kind}{tmp_path}/runs/new")
    assert state == doctor.OK
    assert text.endswith("/runs/new can be read and written; nothing in it" if kind else f"GB free in {tmp_path}")


def test_a_store_that_cannot_be_used_for_a_run_is_told(capsys):
    for url, why in (("no://a/run", "used here"), ("file:///proc/a/run", "written")):
        assert doctor._log_directory(url)[0] == doctor.BROKEN
        assert f"{url} can't be {why}: " in doctor._log_directory(url)[1]
    assert main(["doctor", "--logdir=no://a/run"]) == 1
    assert capsys.readouterr().out.splitlines()[-1].startswith("broken   log directory")
