"""The checks of the doctor."""

import os
import resource
import socket

import pytest

from seed_rl.cli import doctor
from seed_rl.cli.main import main


def test_everything_that_a_run_needs_is_there_and_findings_are_lines():
    findings = doctor.examine()
    for subject in ("Python", "TensorFlow", "packages", "machine", "suite atari", "suite gym"):
        assert findings[subject][0] == doctor.OK, findings[subject]
    assert set(findings) >= {"disk", "shared memory", "open files", "port", "suite dmlab"}
    assert all(": " in text for state, text in findings.values() if state != doctor.OK), findings
    assert all("\n" not in text for _, text in findings.values())


@pytest.fixture
def taken():
    """The address of a server."""
    with socket.socket() as server:
        server.bind(("localhost", 0))
        server.listen()
        yield f"localhost:{server.getsockname()[1]}"


@pytest.fixture
def few_files():
    """A low limit of open files."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (512, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.mark.usefixtures("few_files")
def test_a_lack_is_reported_with_a_remedy(taken):
    for (state, text), sentence in (
        (doctor.room("/", 1e9, "elsewhere"), "GB free in /: elsewhere"),
        (doctor.room("/nowhere", 0.1, "elsewhere"), "/nowhere is not writable: elsewhere"),
        (doctor.suite("nowhere"), "no environment suite named 'nowhere'"),
        (doctor.port(taken), "choose another --server_address"),
        (doctor.open_files(), "at most 512; a learner with a thousand actors needs more: ulimit -n "),
    ):
        assert state == doctor.OPTIONAL
        assert sentence in text


def test_the_disk_is_that_of_the_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert doctor.log_directory()[1].endswith(f"GB free in {tmp_path}")
    os.mkdir("runs")
    assert doctor.log_directory()[1].endswith(f"GB free in {tmp_path}/runs")


def test_a_check_that_fails_does_not_end_the_examination():
    def broken():
        raise OSError("libsomething.so:\nno such file")

    assert doctor.result(broken) == (doctor.BROKEN, "OSError: libsomething.so: no such file")


def test_a_place_that_cannot_be_used_for_a_run_is_reported(capsys):
    for place in (__file__, f"{__file__}/run"):
        assert doctor.log_directory(place)[0] == doctor.BROKEN
    assert main(["doctor", "--logdir=no://a/run"]) == 2
    assert capsys.readouterr().out.splitlines()[-1].startswith("broken   log directory")
