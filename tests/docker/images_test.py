"""The Docker images as far as they can be tested without building them, and the actor image's environment."""

from __future__ import annotations

import os
import pathlib
import re
import subprocess
import sys

import psutil
import pytest
import yaml

from tests.support.ports import free_addresses
from tests.support.source import copy_source

ROOT = pathlib.Path(__file__).resolve().parents[2]


def stages(dockerfile):
    """Each stage of a Dockerfile: its instructions, preceded by the instructions of the stages it builds on."""
    text = re.sub(r"^\s*#.*\n", "", (ROOT / dockerfile).read_text(encoding="utf-8"), flags=re.MULTILINE)
    found = {}
    for line in filter(None, map(str.strip, text.replace("\\\n", " ").splitlines())):
        instruction, _, arguments = line.partition(" ")
        if instruction == "FROM":
            base, _, name = arguments.partition(" AS ")
            found[name] = list(found.get(base, []))
        if found:  # the first stage follows the global arguments
            found[name].append((instruction, arguments.strip()))
    return found


def arguments(stage, *names):
    return [arguments for name, arguments in stage if name in names]


def test_sources_exist_and_packages_are_pinned():
    known = {"scratch"}
    for name, stage in stages("docker/Dockerfile").items():
        base = arguments(stage, "FROM")[-1].partition(" ")[0]
        assert base in known or re.search(r":[\w.-]*\d", base)
        everything = " ".join(arguments for _, arguments in stage)
        assert set(re.findall(r"(?:--from=|,from=)([\w-]+)", everything)) <= known
        assert not re.search(r"token|password|\.pem|secret", everything, re.IGNORECASE)
        known.add(name)
        for words in map(str.split, arguments(stage, "ADD", "COPY")):
            flags = [word for word in words if word.startswith("--")]
            for source in words[len(flags) : -1]:
                remote = "://" in source and any(re.fullmatch("--checksum=sha256:[0-9a-f]{64}", flag) for flag in flags)
                assert remote or any(flag.startswith("--from=") for flag in flags) or (ROOT / source).exists(), source
        for command in re.findall(r"pip install [^&]*", everything):
            lock = re.search(r"--require-hashes -r (\S+)", command)
            if "--no-deps" not in command and lock[1] != "/actor.lock":
                for image in ("actor", "cpu", "gpu", "tpu") if "$IMAGE" in lock[1] else ("",):
                    assert (ROOT / lock[1].strip('"').replace("$IMAGE", image)).is_file(), command


@pytest.mark.parametrize("name", ["image", "football", "dmlab"])
def test_an_image_has_the_package_and_a_command_for_an_unprivileged_user(name):
    known = stages("docker/Dockerfile")
    image = known[name]
    (environment,) = re.findall(r"--from=([\w-]*venv) /opt/venv /opt/venv", str(image))
    assert "--from=package /package /" in arguments(known[environment], "COPY") + arguments(image, "COPY")
    assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", arguments(image, "USER")[-1])
    assert arguments(image, "ENTRYPOINT")[-1] == '["tini", "--", "seed_rl"]'
    assert "/usr/local/lib/seed_rl/health.py" in arguments(image, "HEALTHCHECK")[-1]
    assert "docker/health.py /usr/local/lib/seed_rl/" in arguments(image, "COPY")


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
    settings = ("--total_frames=8000", "--gin_param=Logs.metrics_interval_s=0.1")
    manifests = yaml.safe_load_all(script.done("cloud/render_kubernetes.py", *flags, *settings))
    jobs = {each["metadata"]["name"]: each["spec"]["template"]["spec"] for each in manifests if each["kind"] == "Job"}
    (address,) = free_addresses(1)
    here = {"/secrets": str(secrets), "/runs": str(tmp_path / "runs")}
    here |= {"0.0.0.0:8686": address, "a-learner:8686": address}

    def start(job, **options):
        words = jobs[job]["containers"][0]["args"]
        replaced = [re.sub("|".join(here), lambda found: here[found[0]], word) for word in words]
        return runs.start(*replaced, **options)

    learner = start("a-learner", program=[sys.executable, "-m", "seed_rl"])
    wait_for(lambda: f"serving actors at {address}" in learner.text(), learner)
    trust = (f"--tls_ca={secrets}/cert.pem", f"--token_file={secrets}/token")
    health = [sys.executable, ROOT / "docker/health.py", f"--port={address.rpartition(':')[2]}", "--ask"]
    subprocess.run([*health, *trust], check=True)
    stranger = subprocess.run([*health, trust[0]], capture_output=True, text=True)
    assert (stranger.returncode, "the learner asks for a token" in stranger.stderr) == (1, True)

    actor = start("a-actors", program=[environment / "bin/seed_rl"], env=variables, cwd=tmp_path)
    for process in map(psutil.Process, (learner.pid, actor.pid)):
        assert has_no_secret(" ".join([*process.cmdline(), *process.environ().values()]))
    assert actor.wait() == 0, actor.text()
    assert "is over" in actor.text()
    assert learner.wait() == 0, learner.text()
    assert rows(tmp_path / "runs/a")[-1]["env_frames"] >= 8_000
    written = [path.read_bytes().decode("latin-1") for path in tmp_path.glob("runs/a/**/*") if path.is_file()]
    assert len(written) > 3
    assert all(map(has_no_secret, [learner.text(), actor.text(), *written]))
