"""The actor image's environment, made here without a container: small, without TensorFlow, and it plays."""

from __future__ import annotations

import os
import pathlib
import re
import shutil
import subprocess
import sys

import psutil
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
LIMIT_MB = 300


def commands(stage):
    """What `RUN` runs in a stage of docker/Dockerfile, one text for each."""
    text = (ROOT / "docker/Dockerfile").read_text(encoding="utf-8")
    (body,) = re.findall(rf"^FROM \S+ AS {stage}\n(.*?)(?=^FROM )", text, re.DOTALL | re.MULTILINE)
    body = re.sub(r"^#.*\n", "", body, flags=re.MULTILINE).replace("\\\n", " ")
    return [re.sub(r"^(RUN|--mount=\S+| )*", "", line) for line in body.splitlines() if line.startswith("RUN ")]


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    """The virtual environment of the actor image, made with the commands of docker/Dockerfile."""
    place = tmp_path_factory.mktemp("image")
    source, wheels = place / "src", place / "wheels"
    ignored = shutil.ignore_patterns(".*", "__pycache__", "*.egg-info", "runs", "build", "dist", "docs")
    shutil.copytree(ROOT, source, symlinks=True, ignore=ignored)
    for stage in ("package", "actor-venv"):
        venv = place / stage
        subprocess.run([sys.executable, "-m", "venv", venv], check=True, capture_output=True)
        found = commands(stage)
        assert found
        for command in found:
            done = subprocess.run(
                command.replace("/wheels", str(wheels)),
                shell=True,
                cwd=source,
                env=os.environ | {"PATH": f"{venv}/bin{os.pathsep}{os.environ['PATH']}"},
                capture_output=True,
                text=True,
                stdin=subprocess.DEVNULL,
            )
            assert done.returncode == 0, command + done.stdout + done.stderr
    return venv


@pytest.fixture
def actor(environment, runs, tmp_path):
    """Starts an actor in that environment, away from the repository."""
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}

    def start(*arguments):
        return runs.start("actor", *arguments, program=[environment / "bin/seed_rl"], env=variables, cwd=tmp_path)

    return start


def serve(runs, wait_for, secrets, *arguments):
    """A learner that any machine could reach, with TLS and token; and its port."""
    tls = (f"--tls_cert={secrets}/cert.pem", f"--tls_key={secrets}/key.pem", f"--token_file={secrets}/token")
    learner = runs.start("learner", "--server_address=0.0.0.0:0", *tls, *arguments)
    found = wait_for(lambda: re.search(r"serving actors at 0\.0\.0\.0:(\d+)", learner.text()), learner)
    return learner, int(found[1])


def trust(secrets):
    return f"--tls_ca={secrets}/cert.pem", f"--token_file={secrets}/token"


def test_it_is_small_and_without_tensorflow(environment):
    files = [path for path in environment.rglob("*") if path.is_file() and not path.is_symlink()]
    assert len(files) > 1000
    assert sum(path.stat().st_size for path in files) < LIMIT_MB * 1e6
    names = {path.name.partition("-")[0] for path in environment.glob("lib/python3*/site-packages/*.dist-info")}
    assert {"seed_rl", "grpcio", "ale_py"} <= names
    assert not names & {"tensorflow", "keras", "tensorboard", "matplotlib", "h5py"}


def test_it_plays_catch_for_a_learner_with_tls_and_token_and_nobody_sees_the_secrets(
    runs, rows, wait_for, actor, secrets, has_no_secret, tmp_path
):
    logdir = tmp_path / "runs"
    settings = ("--gin_file=catch/vtrace", "--total_frames=1000000000", "--gin_param=Logs.metrics_interval_s=0.5")
    learner, port = serve(runs, wait_for, secrets, *settings, f"--logdir={logdir}")
    playing = actor(f"--server_address=127.0.0.1:{port}", "--tls_server_name=learner", *trust(secrets))
    wait_for(lambda: any(row["env_frames"] > 5000 and row["environments"] == 32 for row in rows(logdir)), playing)

    health = [sys.executable, ROOT / "docker/health.py", f"--port={port}"]
    asked = subprocess.run([*health, "--ask", *trust(secrets)], capture_output=True, text=True)
    assert (asked.returncode, asked.stderr) == (0, "")
    assert subprocess.run(health).returncode == 0
    stranger = subprocess.run([*health, "--ask", f"--tls_ca={secrets}/cert.pem"], capture_output=True, text=True)
    assert stranger.returncode == 1
    assert "the learner asks for a token" in stranger.stderr

    for process in (learner, playing):
        seen = psutil.Process(process.pid)
        assert "--token_file" in " ".join(seen.cmdline())
        assert has_no_secret(" ".join(seen.cmdline()))
        assert has_no_secret(" ".join(seen.environ().values()))
    playing.process.terminate()
    learner.process.terminate()
    assert learner.wait(60) == 143, learner.text()
    written = [path for path in logdir.rglob("*") if path.is_file()]
    assert {"learner.log", "metrics.jsonl", "config.gin"} <= {path.name for path in written}
    for text in [learner.text(), playing.text(), *(path.read_bytes().decode("latin-1") for path in written)]:
        assert has_no_secret(text)


def test_it_plays_pong(runs, wait_for, actor, secrets, rows, tmp_path):
    logdir = tmp_path / "runs"
    small = ("--gin_param=Actors.envs_per_group=4", "--gin_param=Logs.metrics_interval_s=0.5")
    learner, port = serve(
        runs, wait_for, secrets, "--gin_file=atari/vtrace_pong", "--total_frames=8000", *small, f"--logdir={logdir}"
    )
    playing = actor(f"--server_address=localhost:{port}", *trust(secrets))
    assert learner.wait(120) == 0, learner.text() + playing.text()
    last = rows(logdir)[-1]
    assert last["env_frames"] >= 8000
    assert last["environments"] == 8
