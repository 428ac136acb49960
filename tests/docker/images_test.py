"""The Docker images as far as they can be tested without building them, and the actor image's environment."""

from __future__ import annotations

import os
import pathlib
import re
import subprocess
import sys

import psutil
import yaml

from tests.support.connect_proxy import ConnectProxy
from tests.support.ports import free_addresses
from tests.support.source import copy_source

ROOT = pathlib.Path(__file__).resolve().parents[2]


def test_an_environment_for_actors_is_small_and_plays_in_a_run_that_is_started_as_on_kubernetes(
    script, runs, rows, wait_for, secrets, has_no_secret, tmp_path
):
    copy_source(tmp_path / "source", "tests")
    environment, wheels = tmp_path / "venv", tmp_path / "wheels"
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    install = ("uv", "pip", "install", "--python", environment / "bin/python")
    for words in (
        ("uv", "venv", "--python", sys.executable, environment),
        ("pip", "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", wheels, "./source/requirements/actor"),
        (*install, "--no-deps", "--no-index", "--find-links", wheels, "seed_rl-actor"),
        (*install, "--require-hashes", "-r", environment / "share/seed_rl/actor.lock"),
        ("uv", "pip", "check", "--python", environment / "bin/python"),
    ):
        command = [sys.executable, "-m", *words]
        done = subprocess.run(command, cwd=tmp_path, env=variables, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr

    files = [path for path in environment.rglob("*") if path.is_file() and not path.is_symlink()]
    assert 80e6 < sum(path.stat().st_size for path in files) < 300e6
    assert not re.search("tensorflow|keras|tensorboard|matplotlib", " ".join(path.name for path in files))
    program = "from seed_rl.envs.atari import Atari; env = Atari().make(2); env.reset(seed=1); env.close()"
    subprocess.run([environment / "bin/python", "-I", "-c", program], cwd=tmp_path, check=True)
    train = [environment / "bin/seed_rl", "train", "--gin_file=catch/vtrace"]
    refused = subprocess.run(train, cwd=tmp_path, env=variables, capture_output=True, text=True)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert re.fullmatch(r"seed_rl: \w+ is missing: seed_rl-actor runs actors only.*\n", refused.stderr)

    flags = ("--learner_image=r/cpu:1", "--actor_image=r/actor:1", "--name=a", "--gin_file=catch/vtrace", "--actors=1")
    settings = ("--total_frames=2000", "--gin_param=Logs.metrics_interval_s=0.1")
    manifests = yaml.safe_load_all(script.done("cloud/render_kubernetes.py", *flags, *settings))
    jobs = {each["metadata"]["name"]: each["spec"]["template"]["spec"] for each in manifests if each["kind"] == "Job"}
    (address,) = free_addresses(1)
    here = {"/secrets": str(secrets), "/runs": str(tmp_path / "runs"), "0.0.0.0:8686": address}
    proxy = ConnectProxy({"a-learner:8686": address})  # the actor's only way

    def start(job, *more, **options):
        words = [*jobs[job]["containers"][0]["args"], *more]
        replaced = [re.sub("|".join(here), lambda found: here[found[0]], word) for word in words]
        return runs.start(*replaced, **options)

    learner = start("a-learner", program=[sys.executable, "-m", "seed_rl"])
    wait_for(lambda: f"serving actors at {address}" in learner.text(), learner)
    trust = (f"--tls_ca={secrets}/cert.pem", f"--token_file={secrets}/token")
    health = [sys.executable, ROOT / "docker/health.py", f"--port={address.rpartition(':')[2]}", "--ask"]
    subprocess.run([*health, *trust], check=True)
    stranger = subprocess.run([*health, trust[0]], capture_output=True, text=True)
    assert (stranger.returncode, "the learner asks for a token" in stranger.stderr) == (1, True)

    variables["grpc_proxy"] = proxy.url
    actor = start("a-actors", "--proxy", program=[environment / "bin/seed_rl"], env=variables, cwd=tmp_path)
    for process in map(psutil.Process, (learner.pid, actor.pid)):
        assert has_no_secret(" ".join([*process.cmdline(), *process.environ().values()]))
    assert actor.wait() == 0, actor.text()
    assert "is over" in actor.text()
    assert set(proxy.asked) == {("CONNECT", "a-learner:8686")}
    proxy.close()
    assert learner.wait() == 0, learner.text()
    assert rows(tmp_path / "runs/a")[-1]["env_frames"] >= 2_000
    written = [path.read_bytes().decode("latin-1") for path in tmp_path.glob("runs/a/**/*") if path.is_file()]
    assert len(written) > 3
    assert all(map(has_no_secret, [learner.text(), actor.text(), *written]))
