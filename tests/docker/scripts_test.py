"""Secrets, the health check, and how the scripts of docker/ treat their command lines."""

from __future__ import annotations

import os
import pathlib
import re
import runpy
import shlex
import signal
import stat
import subprocess

import pytest

from seed_rl.envs.dmlab import DMLab
from seed_rl.envs.football import Football
from seed_rl.envs.gym import Gym
from seed_rl.envs.mujoco import MuJoCo
from seed_rl.envs.pettingzoo import PettingZoo
from seed_rl.experiment import config_files
from tests.support.deadlines import within

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


@pytest.mark.parametrize(
    ("command", "sentence"),
    [
        ("make_secrets.sh new a,DNS:evil", "got 'a,DNS:evil'"),
        (GKE + "--name=Pong!", "got 'Pong!'"),
        (GKE + "--secrets=/", "/ has no cert.pem"),
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


def test_ctrl_c_takes_the_containers_down(script, secrets):
    calls = script.directory / "calls"
    os.mkfifo(script.directory / "follows")
    docker = f'#!/bin/sh\necho "$@" >>{calls}\ncase "$*" in *" logs "*) echo >follows; exec sleep 600 ;; esac\n'
    script.replace("docker", docker)
    command = [ROOT / "docker/run_local.sh", "catch/vtrace", "1", "3", f"--secrets={secrets}", "--runs=runs"]
    options = {"cwd": script.directory, "env": script.variables, "start_new_session": True}
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **options) as process:
        (script.directory / "follows").read_text()  # until the learner's log is followed
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does
        assert process.wait(within(60)) != 0
    assert calls.read_text().splitlines()[-1].endswith(" down")
