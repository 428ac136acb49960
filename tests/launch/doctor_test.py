"""The checks of the doctor."""

import os
import resource
import socket

import pytest

from seed_rl.launch import doctor
from seed_rl.launch.cli import main


@pytest.fixture(scope="module")
def findings():
    return {finding.subject: finding for finding in doctor.examine()}


def test_everything_that_a_run_needs_is_there(findings):
    for subject in ("Python", "TensorFlow", "packages", "machine", "unix sockets", "suites", "Atari"):
        assert findings[subject].state == doctor.OK, findings[subject]
    assert set(findings) >= {"disk", "shared memory", "open files", "port", "ffmpeg", "football", "DeepMind Lab"}


def test_findings_are_lines_that_say_how_to_get_missing_parts(findings):
    missing = [finding for finding in findings.values() if finding.state != doctor.OK]
    assert all(": " in finding.text for finding in missing), missing
    assert all("\n" not in finding.text for finding in findings.values())
    of_any_length = ("Python", "disk", "suites")
    assert max(len(finding.text) for subject, finding in findings.items() if subject not in of_any_length) <= 100


@pytest.mark.parametrize(
    ("check", "sentence"),
    [
        (lambda: doctor.disk(min_gb=1e9), "--logdir may be on another disk"),
        (lambda: doctor.shared_memory(min_gb=1e9), "docker run --shm-size=1g"),
        (lambda: doctor.shared_memory(place="/nowhere"), "no /nowhere to write to"),
        (doctor.package("no_such_package_of_anybody", "pip install it"), "not installed: pip install it"),
    ],
)
def test_a_lack_is_reported_with_a_remedy(check, sentence):
    state, text = check()
    assert state == doctor.OPTIONAL
    assert sentence in text


def test_a_port_in_use_is_reported():
    with socket.socket() as taken:
        taken.bind(("localhost", 0))
        taken.listen()
        state, text = doctor.port(f"localhost:{taken.getsockname()[1]}")
    assert state == doctor.OPTIONAL
    assert "--server_address chooses another" in text


def test_a_low_limit_of_open_files_is_reported():
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (512, before[1]))
    try:
        state, text = doctor.open_files()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    assert state == doctor.OPTIONAL
    assert text.startswith("512 may be open, ")
    assert "ulimit -n " in text


def test_the_disk_is_that_of_the_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert doctor.disk()[1].endswith(f"GB free in {tmp_path}")
    os.mkdir("runs")
    assert doctor.disk()[1].endswith(f"GB free in {tmp_path}/runs")


def test_a_check_that_fails_does_not_end_the_examination():
    def broken():
        raise OSError("libsomething.so:\nno such file")

    finding = doctor.find("something", broken)
    assert finding == (doctor.BROKEN, "something", "OSError: libsomething.so: no such file")


def test_the_list_of_experiments_has_a_line_each_that_fits_100_columns(capsys):
    assert main(["configs"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) > 15
    assert all(len(line) <= 100 and line.endswith(".") for line in lines), [x for x in lines if len(x) > 100]
    assert "  Pong with V-trace, sized for two cores." in next(line for line in lines if "vtrace_pong" in line)


@pytest.mark.parametrize("kind", ["", "file://"])
def test_the_log_directory_of_a_future_run_is_checked(kind, tmp_path):
    state, text = doctor.log_directory(f"{kind}{tmp_path}/runs/new")
    assert state == doctor.OK
    assert text.endswith("/runs/new can be read and written; nothing in it" if kind else f"GB free in {tmp_path}")


def test_a_store_that_cannot_be_used_for_a_run_is_reported(capsys):
    for url, why in (("no://a/run", "used here"), ("file:///proc/a/run", "written")):
        assert doctor.log_directory(url)[0] == doctor.BROKEN
        assert f"{url} can't be {why}: " in doctor.log_directory(url)[1]
    assert main(["doctor", "--logdir=no://a/run"]) == 1
    assert capsys.readouterr().out.splitlines()[-1].startswith("broken   log directory")
