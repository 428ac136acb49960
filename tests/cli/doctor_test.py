"""The checks of the doctor; `docs/outputs_test.py` has those of this machine."""

import os
import socket

from seed_rl.cli import doctor
from seed_rl.cli.main import main


def test_a_lack_is_reported_with_a_remedy():
    with socket.create_server(("localhost", 0)) as server:
        port = doctor.port(f"localhost:{server.getsockname()[1]}")
    for (state, text), remedy in {
        doctor.room("/", 1e9, "elsewhere"): "free in /: elsewhere",
        doctor.room("/nowhere", 0.1, "elsewhere"): "/nowhere is not writable",
        port: "another --server_address",
        doctor.suite("nowhere"): "nowhere",
    }.items():
        assert state == doctor.OPTIONAL
        assert remedy in text


def test_the_disk_is_that_of_the_runs_which_must_be_a_place_for_them(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert doctor.log_directory()[1].endswith(f"GB free in {tmp_path}")
    os.mkdir("runs")
    assert doctor.log_directory()[1].endswith(f"GB free in {tmp_path}/runs")
    for place in (__file__, f"{__file__}/run"):
        assert doctor.log_directory(place)[0] == doctor.BROKEN
    assert main(["doctor", "--logdir=no://a/run"]) == 2
    assert capsys.readouterr().out.splitlines()[-1].startswith("broken   log directory")


def test_a_check_that_fails_does_not_end_the_examination():
    def broken():
        raise OSError("libsomething.so:\nno such file")

    assert doctor.result(broken) == (doctor.BROKEN, "OSError: libsomething.so: no such file")
