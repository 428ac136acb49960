"""docker/compose.yaml and docker/run_local.sh, without a container engine.

compose_spec.json is the schema of the Compose specification from the package docker-compose 1.29.2 (Apache 2.0).
"""

from __future__ import annotations

import json
import os
import pathlib
import re
import shlex
import signal
import subprocess

import jsonschema
import pytest
import yaml

from seed_rl import config_files
from seed_rl.launch.cli import main

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCHEMA = json.loads((pathlib.Path(__file__).parent / "compose_spec.json").read_text(encoding="utf-8"))


def compose(name="compose.yaml", **variables):
    """The file as compose reads it, with its variables replaced."""
    text = re.sub(r"^ *#.*\n", "", (ROOT / "docker" / name).read_text(encoding="utf-8"), flags=re.MULTILINE)
    return yaml.safe_load(re.sub(r"\$\{(\w+):-([^}]*)\}", lambda found: variables.get(found[1], found[2]), text))


def command(service):
    words = service["command"]
    return shlex.split(words) if isinstance(words, str) else words


@pytest.mark.parametrize("name", ["compose.yaml", "compose.gpu.yaml"])
def test_the_files_fit_the_schema(name):
    document = compose(name)
    document.pop("name", None)  # newer than the schema
    jsonschema.Draft201909Validator(SCHEMA).validate(document)


@pytest.mark.parametrize("name", ["learner", "actor"])
def test_seed_rl_parses_the_command_lines(name, capsys):
    words = command(compose(SEED_RL_LEARNER_FLAGS="--gin_param=Atari.game=\\'pong\\'")["services"][name])
    assert words[0] == name
    assert main([*words, "--help"]) == 0, capsys.readouterr().err
    assert (words[-1] == "--gin_param=Atari.game='pong'") == (name == "learner")


def test_services_are_unprivileged_and_get_only_the_secrets_that_they_need():
    services = compose(SEED_RL_ACTORS="7")["services"]
    secrets = {name: set(service.get("secrets", [])) for name, service in services.items()}
    assert secrets == {
        "learner": {"tls_cert", "tls_key", "token"},
        "actor": {"tls_cert", "token"},
        "tensorboard": set(),
    }
    for name, service in services.items():
        assert service["user"] == "1000:1000"
        assert (service["cap_drop"], service["security_opt"]) == (["ALL"], ["no-new-privileges:true"])
        assert "environment" not in service
        assert set(re.findall(r"/run/secrets/(\w+)", json.dumps(service))) == secrets[name]
    assert services["tensorboard"]["ports"] == ["127.0.0.1:6006:6006"]
    assert services["actor"]["deploy"]["replicas"] == 7
    assert "--num_actors=7" in command(services["learner"])


@pytest.mark.parametrize(
    ("env", "agent", "gin_file", "images"),
    [
        ("atari", "r2d2", "atari/r2d2_pong", ["cpu", "actor"]),
        ("football", "vtrace", "football/academy", ["cpu", "football"]),
        ("dmlab/rooms_watermaze", "vtrace", "dmlab/rooms_watermaze", ["cpu", "dmlab"]),
        ("catch", "vtrace", "catch/vtrace", ["gpu", "actor"]),
    ],
)
def test_run_local_starts_the_experiment_in_its_images(script, secrets, has_no_secret, env, agent, gin_file, images):
    flags = (f"--secrets={secrets}", "--runs=runs", "--gin_param=Experiment.seed = 7")
    flags += ("--gpu",) if "gpu" in images else ()
    printed, pasted, done = script.printed_and_done("run_local.sh", env, agent, 3, 16, *flags)
    assert has_no_secret(printed)
    assert [call for call in done if "ps" not in call["command"] and call["command"][1] != "inspect"] == pasted
    targets = [word.partition("=")[2] for call in done for word in call["command"] if word.startswith("--target=")]
    assert targets == images
    (up,) = (call for call in done if "up" in call["command"])
    assert up["command"][-4:] == ["up", "--detach", "--scale", "actor=3"]
    assert (str(ROOT / "docker/compose.gpu.yaml") in up["command"]) == ("gpu" in images)
    services = compose(**up["variables"])["services"]
    assert [services[name]["image"] for name in ("learner", "actor")] == [f"seed_rl-{name}:latest" for name in images]
    words = command(services["learner"])
    assert f"--gin_file={gin_file}" in words
    bindings = [word.removeprefix("--gin_param=") for word in words if word.startswith("--gin_param=")]
    loaded = config_files.load([gin_file], [*bindings, "Actors.num_actors = 3"])
    assert (loaded.actors.num_envs, loaded.seed) == (3 * 16, 7)
    assert type(loaded.agent).__name__.lower() == agent
    assert getattr(loaded.env, "backend", "gfootball") == "gfootball", "the one in the image"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("doom", "vtrace", "2", "8"), "ENV must be atari, football, dmlab, catch or the name of an experiment"),
        (("football", "r2d2", "2", "8"), "there is no experiment of football with r2d2"),
        (("atari/vtrace", "r2d2", "2", "8"), "the agent of atari/vtrace is vtrace, not r2d2"),
        (("atari", "vtrace", "0", "8"), "ACTORS must be a whole number from 1 on, got '0'"),
        (("atari", "vtrace", "2", "8", "--gin_param=a=1\nb=2"), "--gin_param takes one line"),
    ],
)
def test_a_mistake_gets_a_sentence_and_touches_nothing(script, arguments, sentence):
    assert sentence in script.mistake("run_local.sh", *arguments)


def test_ctrl_c_takes_the_containers_down(script, secrets):
    calls = script.directory / "calls"
    os.mkfifo(script.directory / "follows")
    script.replace(
        "docker", f'#!/bin/sh\necho "$@" >>{calls}\ncase "$*" in *" logs "*) echo >follows; exec sleep 600 ;; esac\n'
    )
    command = [ROOT / "docker/run_local.sh", "catch", "vtrace", "1", "3", f"--secrets={secrets}", "--runs=runs"]
    options = {"cwd": script.directory, "env": script.variables, "start_new_session": True}
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **options) as process:
        (script.directory / "follows").read_text()  # until the learner's log is followed
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does
        assert process.wait(60) != 0
    assert calls.read_text().splitlines()[-1].endswith(" down")
