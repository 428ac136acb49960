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

import jsonschema
import pytest
import yaml

from seed_rl import config_files
from seed_rl.launch.cli import main

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCHEMA = json.loads((pathlib.Path(__file__).parent / "compose_spec.json").read_text(encoding="utf-8"))


def compose(name="compose.yaml", **variables):
    """The file as compose sees it: with variables put in, and numbers where they are meant."""
    text = (ROOT / "docker" / name).read_text(encoding="utf-8")
    text = re.sub(r"^#.*\n|^ +#.*\n", "", text, flags=re.MULTILINE)
    document = yaml.safe_load(text)

    def filled(value):
        if isinstance(value, dict):
            return {key: filled(part) for key, part in value.items()}
        if isinstance(value, list):
            return [filled(part) for part in value]
        if isinstance(value, str):
            return re.sub(r"\$\{(\w+):-([^}]*)\}", lambda found: variables.get(found[1], found[2]), value)
        return value

    document = filled(document)
    for service in document["services"].values():
        if "replicas" in service.get("deploy", {}):
            service["deploy"]["replicas"] = int(service["deploy"]["replicas"])
    return document


def command(service):
    words = service["command"]
    return shlex.split(words) if isinstance(words, str) else words


@pytest.mark.parametrize("name", ["compose.yaml", "compose.gpu.yaml"])
def test_the_files_fit_the_schema(name):
    document = compose(name)
    document.pop("name", None)  # newer than the schema
    jsonschema.Draft201909Validator(SCHEMA).validate(document)


def test_one_learner_actors_and_tensorboard():
    services = compose(SEED_RL_ACTORS="7")["services"]
    assert list(services) == ["learner", "actor", "tensorboard"]
    assert services["actor"]["deploy"]["replicas"] == 7
    assert "deploy" not in services["learner"]
    assert "--num_actors=7" in command(services["learner"])
    for name, mounted in (("learner", "../runs:/runs"), ("tensorboard", "../runs:/runs:ro")):
        assert services[name]["volumes"] == [mounted]
    assert services["tensorboard"]["ports"] == ["127.0.0.1:6006:6006"], "not for other machines"


@pytest.mark.parametrize("name", ["learner", "actor"])
def test_seed_rl_knows_the_flags(name, capsys):
    words = command(compose(SEED_RL_LEARNER_FLAGS="--gin_param=Atari.game=\\'pong\\'")["services"][name])
    assert words[0] == name
    assert main([*words, "--help"]) == 0, capsys.readouterr().err
    if name == "learner":
        assert words[-1] == "--gin_param=Atari.game='pong'"


def test_secrets_come_as_files_and_only_to_those_who_need_them():
    document = compose(SEED_RL_SECRETS="/there")
    files = {name: secret["file"] for name, secret in document["secrets"].items()}
    assert files == {"tls_cert": "/there/cert.pem", "tls_key": "/there/key.pem", "token": "/there/token"}
    services = document["services"]
    assert set(services["learner"]["secrets"]) == set(files)
    assert set(services["actor"]["secrets"]) == {"tls_cert", "token"}
    assert "secrets" not in services["tensorboard"]
    for service in services.values():
        assert "environment" not in service
        paths = re.findall(r"/run/secrets/(\w+)", json.dumps(service))
        assert set(paths) <= set(service.get("secrets", []))


def test_containers_have_no_rights():
    for service in compose()["services"].values():
        assert service["user"] == "1000:1000"
        assert service["cap_drop"] == ["ALL"]
        assert "no-new-privileges:true" in service["security_opt"]


def started(script):
    """The variables that compose got with `up`, and the names of the images that were built."""
    records = script.records()
    builds = [record["command"] for record in records if record["command"][:2] == ["docker", "build"]]
    targets = [word.partition("=")[2] for build in builds for word in build if word.startswith("--target=")]
    (up,) = (record for record in records if "up" in record["command"])
    return up, targets


@pytest.mark.parametrize(
    ("env", "agent", "gin_file", "targets"),
    [
        ("atari", "vtrace", "atari/vtrace_pong", ["cpu", "actor"]),
        ("atari", "r2d2", "atari/r2d2_pong", ["cpu", "actor"]),
        ("football", "vtrace", "football/academy", ["cpu", "football"]),
        ("dmlab", "vtrace", "dmlab/small", ["cpu", "dmlab"]),
        ("catch", "r2d2", "catch/r2d2", ["cpu", "actor"]),
        ("football/academy", "vtrace", "football/academy", ["cpu", "football"]),
        ("dmlab/rooms_watermaze", "vtrace", "dmlab/rooms_watermaze", ["cpu", "dmlab"]),
        ("memory/r2d2", "r2d2", "memory/r2d2", ["cpu", "actor"]),
    ],
)
def test_run_local_starts_the_experiment_in_its_images(script, env, agent, gin_file, targets, tmp_path):
    flags = (f"--secrets={tmp_path}/secrets", f"--runs={tmp_path}/runs", "--gin_param=Experiment.seed = 7")
    script.done("run_local.sh", env, agent, 3, 16, *flags)
    up, built = started(script)
    assert built == targets
    assert up["command"][-4:] == ["up", "--detach", "--scale", "actor=3"]
    services = compose(**up["variables"])["services"]
    assert [services[name]["image"] for name in ("learner", "actor")] == [f"seed_rl-{name}:latest" for name in targets]
    words = command(services["learner"])
    bindings = [word.removeprefix("--gin_param=") for word in words if word.startswith("--gin_param=")]
    loaded = config_files.load([gin_file], [*bindings, "Actors.num_actors = 3"])
    assert f"--gin_file={gin_file}" in words
    assert loaded.actors.num_envs == 3 * 16
    assert loaded.seed == 7
    assert type(loaded.agent).__name__.lower() == agent
    if env.startswith("football"):
        assert loaded.env.backend == "gfootball", "the one that the image has"
    assert services["learner"]["user"] == ("1000:1000" if os.geteuid() == 0 else f"{os.getuid()}:{os.getgid()}")
    assert (tmp_path / "secrets/token").stat().st_size == 65


def test_run_local_keeps_secrets_that_are_there_and_passes_on_how_the_learner_ended(script, secrets):
    before = (secrets / "token").read_bytes()
    done = script.run("run_local.sh", "catch", "vtrace", "1", "3", f"--secrets={secrets}", "--gpu", "--run=mine")
    assert done.returncode == 0, done.stderr
    assert (secrets / "token").read_bytes() == before
    up, built = started(script)
    assert built == ["gpu", "actor"]
    assert str(ROOT / "docker/compose.gpu.yaml") in up["command"]
    assert "--logdir=/runs/mine" in command(compose(**up["variables"])["services"]["learner"])
    assert "Actors.groups_per_actor=1" in up["variables"]["SEED_RL_LEARNER_FLAGS"], "three can't be halved"
    assert [record["command"][1] for record in script.records()][-2:] == ["inspect", "compose"]
    assert script.records()[-1]["command"][-1] == "down"


def test_ctrl_c_takes_the_containers_down(script, secrets):
    docker = script.directory / "tools/docker"
    told = script.directory / "told"
    docker.write_text(f'#!/bin/sh\necho "$@" >>{told}\ncase "$*" in *" logs "*) exec sleep 600 ;; esac\n')
    command = [ROOT / "docker/run_local.sh", "catch", "vtrace", "1", "2", f"--secrets={secrets}", "--runs=runs"]
    with script.started(*command) as process:
        while not told.exists() or " logs " not in told.read_text():
            assert process.poll() is None
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does
        assert process.wait(60) != 0
    assert told.read_text().splitlines()[-1].endswith(" down")


def test_a_dry_run_prints_what_a_run_does_and_touches_nothing(script, secrets, has_no_secret):
    arguments = ("atari", "vtrace", "4", "16", f"--secrets={secrets}", "--gin_param=Atari.game='breakout'")
    printed = script.done("run_local.sh", *arguments, "--dry_run")
    assert script.records() == []
    assert not (script.directory / "runs").exists()
    assert has_no_secret(printed)
    script.done("run_local.sh", *arguments)
    words = [shlex.split(line) for line in printed.splitlines()]
    (export,) = (line for line in words if line[0] == "export")
    up, _ = started(script)
    assert dict(word.split("=", 1) for word in export[1:]) == up["variables"]
    ran = [record["command"] for record in script.records()]
    for line in words:
        if "docker" in line:
            assert line[line.index("docker") :] in ran


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["atari", "vtrace", "4"], "ENV, AGENT, ACTORS and ENVS are needed, got 3 of them"),
        (["doom", "vtrace", "4", "4"], "ENV must be atari, football, dmlab, catch or the name of an experiment"),
        (["atari/none", "vtrace", "4", "4"], "there is no experiment atari/none"),
        (["atari", "ppo", "4", "4"], "AGENT must be vtrace or r2d2, got 'ppo'"),
        (["atari", "vtrace", "0", "4"], "ACTORS must be a whole number from 1 on, got '0'"),
        (["atari", "vtrace", "1", "many"], "ENVS must be a whole number from 1 on, got 'many'"),
        (["football", "r2d2", "1", "4"], "there is no experiment of football with r2d2"),
        (["dmlab/rooms_watermaze", "r2d2", "1", "4"], "the agent of dmlab/rooms_watermaze is vtrace, not r2d2"),
        (["atari", "vtrace", "1", "4", "--run=../x"], "--run must be one name"),
        (["atari", "vtrace", "1", "4", "--gqu"], "there is no --gqu"),
        (["atari", "vtrace", "1", "4", "-n"], "there is no -n; --help lists the flags"),
        (["atari", "vtrace", "1", "4", "--runs="], "--runs is needed"),
        (["atari", "vtrace", "1", "4", "--secrets="], "--secrets is needed"),
        (["atari", "vtrace", "1", "4", f"--secrets={ROOT}"], "has no cert.pem"),
        (["atari", "vtrace", "1", "4", "--gpu=2"], "--gpu takes no value"),
    ],
)
def test_run_local_tells_a_mistake_in_a_sentence(script, arguments, sentence):
    assert sentence in script.mistake("run_local.sh", *arguments)


@pytest.mark.parametrize("name", ["build.sh", "make_secrets.sh", "run_local.sh", "cloud/gke.sh", "cloud/vertex.sh"])
def test_help_names_every_flag(script, name):
    text = script.done(name, "--help")
    assert text.startswith("Usage: docker/")
    source = (ROOT / "docker" / name).read_text(encoding="utf-8")
    known = re.findall(r"\[(\w+)\]=", re.search(r"^flags=\((.*?)\)$", source, re.MULTILINE | re.DOTALL)[1])
    assert known
    for flag in known:
        assert f"--{flag}" in text
    assert set(re.findall(r"^ *--(\w+)", text, re.MULTILINE)) <= {*known, "gin_param"}
