"""docker/make_secrets.sh and docker/health.py."""

from __future__ import annotations

import pathlib
import re
import runpy
import shutil
import socket
import ssl
import stat
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
HEALTH = ROOT / "docker/health.py"


def test_secrets_are_their_owners_alone_and_a_second_call_leaves_them(secrets, script):
    before = {path.name: path.read_bytes() for path in secrets.iterdir()}
    assert set(before) == {"cert.pem", "key.pem", "token"}
    assert re.fullmatch(rb"[0-9a-f]{64}\n", before["token"])
    assert stat.S_IMODE(secrets.stat().st_mode) == 0o700
    assert all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in secrets.iterdir())
    assert "exists already" in script.mistake("make_secrets.sh", secrets)
    assert {path.name: path.read_bytes() for path in secrets.iterdir()} == before
    script.done("make_secrets.sh", script.directory / "other")
    assert (script.directory / "other/token").read_bytes() != before["token"]


@pytest.mark.parametrize("name", ["hostname learner", "hostname localhost", "hostname l.example.org", "ip 10.0.0.7"])
def test_actors_that_trust_the_certificate_know_the_learner_by_its_names(script, name):
    directory = script.directory / "made"
    script.done("make_secrets.sh", "--days=10", directory, "l.example.org", "10.0.0.7")
    ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(directory / "cert.pem", directory / "key.pem")
    kind, value = name.split()
    certificate = directory / "cert.pem"
    script.done("/usr/bin/env", "openssl", "verify", "-CAfile", certificate, f"-verify_{kind}", value, certificate)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([], "name a new directory"),
        (["new", "--day=1"], "there is no --day; --help lists the flags"),
        (["new", "a,DNS:evil"], "a name must be a host name or an IP address, got 'a,DNS:evil'"),
    ],
)
def test_a_mistake_gets_a_sentence_and_makes_nothing(arguments, sentence, script):
    assert sentence in script.mistake("make_secrets.sh", *arguments)
    assert not (script.directory / "new").exists()


def test_git_docker_and_the_source_distribution_leave_secrets_out():
    for file, line in ((".dockerignore", "docker/secrets"), (".gitignore", "/docker/secrets/")):
        assert line in (ROOT / file).read_text().splitlines()
    assert "prune docker/secrets" in (ROOT / "MANIFEST.in").read_text().splitlines()


@pytest.fixture
def look(tmp_path):
    """`health.look` at the kernel's present tables, with this test's unix sockets only."""
    health = runpy.run_path(str(HEALTH))

    def now(port):
        for name in ("tcp", "tcp6"):
            if pathlib.Path("/proc/net", name).exists():
                shutil.copyfile(f"/proc/net/{name}", tmp_path / name)
        head, *lines = pathlib.Path("/proc/net/unix").read_text().splitlines()
        (tmp_path / "unix").write_text("\n".join([head, *(line for line in lines if str(tmp_path) in line)]))
        return health["look"](port, tmp_path)

    return now


def test_a_learner_that_listens_and_a_connected_actor_are_healthy(look):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert look(port) == ""
        actor = socket.create_connection(("127.0.0.1", port))
        accepted, _ = server.accept()
    with actor, accepted:
        assert look(port) == ""
        own = actor.getsockname()[1]
    assert look(own) == f"nothing in this container serves actors at port {own} or is connected to a learner's"


def test_a_train_is_healthy_while_its_unix_socket_listens(look, tmp_path):
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "learner.sock"))
        assert look(1) != ""
        server.listen()
        assert look(1) == ""


def test_asking_an_absent_learner_fails_with_a_sentence(script):
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))  # but not listening
        done = script.run(sys.executable, HEALTH, "--ask", f"--port={closed.getsockname()[1]}", "--timeout=0.5")
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1
