"""Secrets, the health check, and how the scripts of docker/ treat their command lines."""

from __future__ import annotations

import pathlib
import re
import runpy
import shlex
import shutil
import ssl
import stat
import subprocess
import sys
from unittest.mock import create_autospec

import pytest

from seed_rl.envs.dmlab import DMLab
from seed_rl.envs.football import Football
from seed_rl.envs.gym import Gym
from seed_rl.envs.mujoco import MuJoCo
from seed_rl.envs.pettingzoo import PettingZoo
from seed_rl.experiment import config_files
from seed_rl.transport.client import LearnerClient

ROOT = pathlib.Path(__file__).resolve().parents[2]
RUN = "--project=p --repository=r --name=pong --actors=20 --gin_file=atari/vtrace --tag=v1"
GKE = f"cloud/gke.sh {RUN} --location=europe-west4 --cluster=rl "


def test_secrets_are_their_owners_alone_and_a_second_call_leaves_them(secrets, script):
    before = {path.name: path.read_bytes() for path in secrets.iterdir()}
    assert set(before) == {"cert.pem", "key.pem", "token"}
    assert re.fullmatch(rb"[0-9a-f]{64}\n", before["token"])
    assert stat.S_IMODE(secrets.stat().st_mode) == 0o700
    assert all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in secrets.iterdir())
    assert "exists already" in script.run("make_secrets.sh", secrets).stderr
    assert {path.name: path.read_bytes() for path in secrets.iterdir()} == before
    script.done("make_secrets.sh", script.directory / "other")
    assert (script.directory / "other/token").read_bytes() != before["token"]


def test_actors_that_trust_the_certificate_know_the_learner_by_its_names(script):
    script.done("make_secrets.sh", "--days=10", "made", "l.example.org", "10.0.0.7")
    certificate = script.directory / "made/cert.pem"
    ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, script.directory / "made/key.pem")
    for name in ("hostname learner", "hostname localhost", "hostname l.example.org", "ip 127.0.0.1", "ip 10.0.0.7"):
        flags = ("-CAfile", certificate, *f"-verify_{name}".split(), certificate)
        script.done("/usr/bin/env", "openssl", "verify", *flags)


def test_the_health_check_asks_as_an_actor_does(monkeypatch):
    client = create_autospec(LearnerClient)
    monkeypatch.setattr("seed_rl.transport.client.LearnerClient", client)
    monkeypatch.setattr(sys, "argv", ["health.py", "--ask", "--port=7"])
    with pytest.raises(SystemExit, match="^0$"):
        runpy.run_path(str(ROOT / "docker/health.py"), run_name="__main__")
    assert client.call_args.args[0] == "localhost:7"
    client.return_value.describe.assert_called_once()


def test_git_docker_and_the_source_distribution_leave_secrets_out():
    for file, line in ((".dockerignore", ""), (".gitignore", "/"), ("MANIFEST.in", "prune ")):
        assert f"{line}docker/secrets" in [line.rstrip("/") for line in (ROOT / file).read_text().splitlines()]


@pytest.mark.parametrize(
    ("command", "sentence"),
    [
        ("make_secrets.sh new a,DNS:evil", "NAME must be a host name or an IP address, got 'a,DNS:evil'"),
        ("build.sh cpu-mujocco", "IMAGE must be cpu, gpu, tpu or actor, one of them with -mujoco or -pettingzoo,"),
        ("run_local.sh ../../etc/passwd 2 8", "run_local.sh: there is no experiment '../../etc/passwd' in configs/"),
        ("run_local.sh atari/vtrace 2 8 --gin_param='a=1\n'", "--gin_param must be a gin binding"),
        (GKE + "--bucket=runs", "--bucket needs --service_account, one that may write into the bucket"),
        (GKE + "--name=Pong!", "--name must be at most 40 of a-z, 0-9 and -, beginning with a letter, got 'Pong!'"),
        (GKE + "--accelerator=tpu --accelerator_count=2", "--accelerator_count must be the 1 chips of --tpu_topology"),
        (GKE + "--accelerator=none --accelerator_count=2", "--accelerator_count has no meaning with --acceler"),
        (GKE + "--secrets=/", "--secrets must be new or a directory of docker/make_secrets.sh; / has no cert.pem"),
    ],
)
def test_a_mistake_gets_a_sentence_and_touches_nothing(script, command, sentence):
    done = script.run(*shlex.split(command))
    assert (done.returncode, done.stdout, script.records()) == (2, "", [])
    assert [sentence in line for line in done.stderr.splitlines()] == [True]
    assert not (script.directory / "new").exists()


@pytest.mark.parametrize("name", config_files.shipped_configs())
def test_every_experiment_gets_images_that_have_its_packages(name):
    launch = runpy.run_path(str(ROOT / "docker/launch.py"))
    env = config_files.load([name]).env
    is_box2d = isinstance(env, Gym) and env.id.startswith("LunarLander")
    is_mujoco = is_box2d or isinstance(env, MuJoCo)
    actor = "football" if isinstance(env, Football) else "dmlab" if isinstance(env, DMLab) else "actor"
    extra = "-mujoco" if is_mujoco else "-pettingzoo" if isinstance(env, PettingZoo) else ""
    settings = ["Football.backend='gfootball'"] if actor == "football" else []
    chosen = launch["choose_images"](launch["check_experiment"](name), "cpu")
    assert chosen == (f"cpu{extra}", f"{actor}{extra}", settings)


def test_images_are_tagged_by_their_content(tmp_path, script):
    shutil.copytree(ROOT / "docker", tmp_path / "copy/docker", ignore=shutil.ignore_patterns("secrets", "__pycache__"))
    git = ("git", "-C", tmp_path / "copy", "-c", "user.name=me", "-c", "user.email=me@here")
    for words in (("init", "--quiet"), ("add", "."), ("commit", "--quiet", "--message=first")):
        subprocess.run([*git, *words], check=True)
    tags = []
    for edit in ("", "# one", "# two"):
        with open(tmp_path / "copy/docker/health.py", "a") as file:
            file.write(edit)
        printed = script.done(tmp_path / "copy/docker/build.sh", "cpu", "--dry_run")
        tags += re.findall(r"image\.revision=(\S+)", printed)
    assert len(set(tags)) == 3
    assert [tag.startswith(f"{tags[0]}-") for tag in tags] == [False, True, True]


def guide():
    text = (ROOT / "docs/cloud.md").read_text(encoding="utf-8")
    blocks = "".join(re.findall(r"^```sh\n(.*?)^```", text, re.DOTALL | re.MULTILINE)).replace("\\\n", " ")
    return [line.partition(" | ")[0] for line in blocks.splitlines() if line.startswith("docker/")]


@pytest.mark.parametrize("command", guide())
def test_the_commands_of_the_guide_work(script, command):
    words = shlex.split(command.removeprefix("docker/"), comments=True)
    script.done(*words, *([] if re.search("make_secrets|render_kubernetes", command) else ["--dry_run"]))
    assert script.records() == []


@pytest.mark.parametrize(
    ("table", "line", "healthy"),
    [
        ("tcp", "0: 00000000:21EE 00000000:0000 0A", True),  # a learner listens at 8686
        ("tcp6", "0: 0:9C40 0:21EE 01", True),  # an actor is connected to it
        ("tcp", "0: 0100007F:9C40 0100007F:21EE 06", False),  # was connected
        ("unix", "0: 00000002 00000000 00010000 0001 01 12 /tmp/learner.sock", True),  # the learner of `seed_rl train`
        ("unix", "0: 00000002 00000000 00000000 0001 01 12 /tmp/learner.sock", False),  # doesn't listen
    ],
)
def test_a_process_that_serves_or_is_connected_is_healthy(tmp_path, table, line, healthy):
    for name in ("tcp", "tcp6", "unix"):
        (tmp_path / name).write_text("the columns\n" + (line if name == table else ""))
    trouble = runpy.run_path(str(ROOT / "docker/health.py"))["look"](8686, tmp_path)
    assert trouble == ("" if healthy else "nothing in this container serves actors at port 8686 or is connected to it")
