"""The scripts of docker/ without a container engine or a cloud; images_test.py starts what they render."""

from __future__ import annotations

import json
import os
import pathlib
import re
import runpy
import shlex
import signal
import stat
import subprocess

import kubernetes_validate
import pytest
import yaml

from seed_rl.envs.dmlab import DMLab
from seed_rl.envs.football import Football
from seed_rl.envs.gym import Gym
from seed_rl.envs.mujoco import MuJoCo
from seed_rl.envs.pettingzoo import PettingZoo
from seed_rl.experiment import config_files
from tests.support.deadlines import within

ROOT = pathlib.Path(__file__).resolve().parents[2]
RUN = ("--project=lab-1", "--repository=registry.example/rl", "--tag=v1", "--name=pong", "--actors=20")
GKE = ("cloud/gke.sh", *RUN, "--gin_file=atari/vtrace", "--location=europe-west4", "--cluster=rl")


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
        (("make_secrets.sh", "new", "a,DNS:evil"), "got 'a,DNS:evil'"),
        ((*GKE, "--name=Pong!"), "got 'Pong!'"),
        ((*GKE, "--secrets=/"), "/ has no cert.pem"),
    ],
)
def test_a_mistake_gets_a_sentence_and_touches_nothing(script, command, sentence):
    done = script.run(*command)
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


def compose(variables):
    """The services of the file as compose reads it, with its variables replaced."""
    text = re.sub(r"^ *#.*\n", "", (ROOT / "docker/compose.yaml").read_text(encoding="utf-8"), flags=re.MULTILINE)
    text = re.sub(r"\$\{(\w+):-([^}]*)\}", lambda found: variables.get(found[1], found[2]), text)
    return yaml.safe_load(text)["services"]


def command(service):
    words = service["command"]
    return shlex.split(words) if isinstance(words, str) else words


@pytest.mark.parametrize(
    ("gin_file", "images"),
    [("football/academy", ["cpu", "football"]), ("gym/lunar_lander", ["gpu-mujoco", "actor-mujoco"])],
)
def test_run_local_starts_the_experiment_in_its_images(script, secrets, has_no_secret, gin_file, images):
    flags = (f"--secrets={secrets}", "--runs=runs", "--gin_param=Experiment.seed = 7")
    gpu = images[0].startswith("gpu")
    flags += ("--gpu",) if gpu else ()
    printed, pasted, done = script.printed_and_done("run_local.sh", gin_file, "3", "16", *flags)
    assert has_no_secret(printed)
    assert [call for call in done if "ps" not in call["command"] and call["command"][1] != "inspect"] == pasted
    builds = [" ".join(call["command"]) for call in done if "build" in call["command"]]
    for image, built in zip(images, builds, strict=True):
        kind, _, extra = image.partition("-")
        assert f"--tag=seed_rl-{image}:latest" in built
        assert f"--target={kind if kind in ('football', 'dmlab') else 'image'} " in built
        lock = kind if kind in ("cpu", "gpu") else "actor"
        assert f"--build-arg=IMAGE={lock} --build-arg=EXTRA={extra} --build-arg=COMMIT=" in built
    (up,) = (call for call in done if "up" in call["command"])
    assert up["command"][-4:] == ["up", "--detach", "--scale", "actor=3"]
    assert re.fullmatch(r"--project-name=seed_rl-\w{12}", up["command"][2]), "two runs are two projects"
    assert (str(ROOT / "docker/compose.gpu.yaml") in up["command"]) == gpu
    services = compose(up["variables"])
    assert [services[name]["image"] for name in ("learner", "actor")] == [f"seed_rl-{name}:latest" for name in images]
    assert f"--gin_file={gin_file}" in command(services["learner"])
    assert ("--accelerator=gpu" in command(services["learner"])) == gpu
    bindings = re.findall(r"^--gin_param=(.*)", "\n".join(command(services["learner"])), re.MULTILINE)
    loaded = config_files.load([gin_file], [*bindings, "Actors.num_actors = 3"])
    assert (loaded.actors.num_envs, loaded.seed) == (3 * 16, 7)


def test_manifests_fit_the_schemas_of_kubernetes(script, secrets):
    images = ("--learner_image=r/gpu:1", "--actor_image=r/actor:1", "--name=a", "--gin_file=catch/vtrace")
    hosts = ("--actors=5", "--learners=2", "--claim=nfs", "--learner_taint=gpu=present", "--learner_cpu=0.5")
    rendered = [script.done("cloud/render_kubernetes.py", *images, *hosts)]
    for flags in ((), ("--bucket=lab-runs", "--service_account=writer", "--days=2")):
        printed = script.done(*GKE, f"--secrets={secrets}", "--dry_run", *flags)
        rendered.append(printed[printed.index("<<'EOF'\n") + 8 : printed.rindex("EOF")])
    assert not any("null" in text for text in rendered), "it would clear what a cluster has filled in"
    for document in (each for text in rendered for each in yaml.safe_load_all(text)):
        for version in ("1.31", kubernetes_validate.latest_version()):
            kubernetes_validate.validate(document, version, strict=True)


def test_a_run_executes_what_a_dry_run_prints_and_shows_no_secret(script, secrets, has_no_secret):
    flags = ("--create_cluster", "--namespace=rl", "--gin_param=Atari.game = 'breakout'", "--total_frames=12M")
    printed, pasted, done = script.printed_and_done(*GKE, *flags, f"--secrets={secrets}")
    assert len(done) > 10
    assert sorted(pasted, key=str) == sorted(done, key=str), "the two ends of a pipe run at the same time"
    assert has_no_secret(printed + json.dumps(done))
    assert "breakout" in done[-1]["input"]
    old_ends, new_starts = printed.index("delete --cascade=foreground"), printed.rindex("kubectl apply --filename=-")
    assert old_ends < new_starts, "a new learner starts when the old one has written its checkpoint"
