"""docker/health.py on the kernel's own tables."""

from __future__ import annotations

import pathlib
import shutil
import socket
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.fixture
def look(tmp_path):
    """`health.look` at the tables of the moment, without unix sockets other than those of this test."""
    namespace = {"__name__": "health"}
    exec(compile((ROOT / "docker/health.py").read_text(encoding="utf-8"), "health.py", "exec"), namespace)

    def at_this_moment(port):
        for name in ("tcp", "tcp6"):
            if pathlib.Path("/proc/net", name).exists():
                shutil.copyfile(f"/proc/net/{name}", tmp_path / name)
        lines = pathlib.Path("/proc/net/unix").read_text().splitlines()
        own = [line for line in lines if str(tmp_path) in line]
        (tmp_path / "unix").write_text("\n".join([lines[0], *own]) + "\n")
        return namespace["look"](port, tmp_path)

    return at_this_moment


def test_a_learner_is_healthy_while_it_listens(look):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert look(port) == ""
    assert look(port) == f"nothing in this container serves actors at port {port} or is connected to a learner's"


def test_an_actor_is_healthy_while_it_is_connected(look):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        actor = socket.create_connection(("127.0.0.1", port))
        accepted, _ = server.accept()
    with actor, accepted:
        assert look(port) == "", "nobody listens any more"
        own = actor.getsockname()[1]
    assert own != port
    assert "nothing in this container" in look(port)


def test_a_train_is_healthy_while_its_unix_socket_listens(look, tmp_path):
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "learner.sock"))
        assert look(1) != "", "bound, but not listening"
        server.listen()
        assert look(1) == ""


def test_asking_nobody_says_so():
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))  # nobody listens
        command = [sys.executable, ROOT / "docker/health.py", "--ask", f"--port={closed.getsockname()[1]}"]
        done = subprocess.run([*command, "--timeout=0.5"], capture_output=True, text=True)
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1
