"""The Docker images as far as they can be tested without building them, and the actor image's environment."""

from __future__ import annotations

import os
import pathlib
import re
import shutil
import subprocess
import sys
from typing import NamedTuple

import psutil
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
DOCKERFILES = ("docker/Dockerfile", "docker/dmlab.Dockerfile")
VARIABLES = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}


class Stage(NamedTuple):
    base: str
    instructions: list[tuple[str, str]]

    def arguments(self, *names):
        return [arguments for name, arguments in self.instructions if name in names]


def stages(dockerfile):
    """The stages of a Dockerfile by name, each with the instructions of the stages that it begins with."""
    text = re.sub(r"^\s*#.*\n", "", (ROOT / dockerfile).read_text(encoding="utf-8"), flags=re.MULTILINE)
    found = {}
    for line in filter(None, map(str.strip, text.replace("\\\n", " ").splitlines())):
        instruction, _, arguments = line.partition(" ")
        if instruction == "FROM":
            base, _, name = arguments.partition(" AS ")
            found[name] = Stage(base, list(found[base].instructions) if base in found else [])
        else:
            found[name].instructions.append((instruction, arguments.strip()))
    return found


@pytest.mark.parametrize("dockerfile", DOCKERFILES)
def test_hadolint_accepts_the_dockerfile(dockerfile):
    hadolint = shutil.which("hadolint", path=os.pathsep.join([os.path.dirname(sys.executable), os.environ["PATH"]]))
    done = subprocess.run([hadolint, "--no-color", dockerfile], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("dockerfile", DOCKERFILES)
def test_sources_exist_and_packages_are_pinned(dockerfile):
    known = {"scratch"}
    for name, stage in stages(dockerfile).items():
        assert stage.base in known or re.search(r":[\w.-]*\d", stage.base)
        everything = " ".join(arguments for _, arguments in stage.instructions)
        assert set(re.findall(r"(?:--from=|,from=)([\w-]+)", everything)) <= known
        assert not re.search(r"token|password|\.pem|secret", everything, re.IGNORECASE)
        known.add(name)
        for words in map(str.split, stage.arguments("ADD", "COPY")):
            flags = [word for word in words if word.startswith("--")]
            for source in words[len(flags) : -1]:
                remote = "://" in source and any(re.fullmatch("--checksum=sha256:[0-9a-f]{64}", flag) for flag in flags)
                assert remote or any(flag.startswith("--from=") for flag in flags) or (ROOT / source).exists(), source
        for command in re.findall(r"pip install [^&]*", everything):
            lock = re.search(r"(?:-r|--constraint) (\S+)", command)
            assert "--no-deps" in command or lock[1] == '"$LOCK"' or (ROOT / lock[1]).is_file(), command


@pytest.mark.parametrize(
    ("dockerfile", "name", "lock"),
    [
        ("docker/Dockerfile", "cpu", "cpu"),
        ("docker/Dockerfile", "gpu", "gpu"),
        ("docker/Dockerfile", "tpu", "tpu"),
        ("docker/Dockerfile", "atari", "actor"),
        ("docker/Dockerfile", "football", "actor"),
        ("docker/dmlab.Dockerfile", "dmlab", "actor"),
    ],
)
def test_an_image_has_its_lock_the_package_and_a_command_for_an_unprivileged_user(dockerfile, name, lock):
    known = stages(dockerfile)
    image = known[name]
    (environment,) = re.findall(r"--from=([\w-]+-venv) /opt/venv /opt/venv", str(image)) or [name]
    installed = " ".join(known[environment].arguments("ARG", "RUN"))
    assert re.findall(r"(?:install -r |LOCK=)(requirements/\S+)", installed) == [f"requirements/{lock}.lock"]
    assert re.search(r"--no-deps /wheels/(seed_rl/)?\*\.whl", installed)
    assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", image.arguments("USER")[-1])
    assert image.arguments("ENTRYPOINT")[-1] == '["seed_rl"]'
    assert "/usr/local/lib/seed_rl/health.py" in image.arguments("HEALTHCHECK")[-1]
    assert "docker/health.py docker/cloud/vertex_start.py /usr/local/lib/seed_rl/" in image.arguments("COPY")


def test_the_init_file_of_deepmind_lab_puts_the_native_module_in_its_place(tmp_path):
    """With a native module of the standard library in place of the simulator's."""
    (tmp_path / "_queue").mkdir()
    native = shutil.copy(sys.modules["_queue"].__file__, tmp_path / "_queue/deepmind_lab.so")
    shutil.copy(ROOT / "docker/deepmind_lab_init.py", tmp_path / "_queue/__init__.py")
    program = (
        "import sys, _queue; print(_queue is sys.modules['_queue'], _queue.__file__, callable(_queue.SimpleQueue))"
    )
    environment = os.environ | {"PYTHONPATH": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True)
    assert done.stdout == f"True {native} True\n", done.stderr


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    """The virtual environment of the actor image, made with the commands of docker/Dockerfile."""
    place = tmp_path_factory.mktemp("image")
    ignored = shutil.ignore_patterns(".*", "__pycache__", "*.egg-info", "runs", "build", "dist", "docs", "tests")
    shutil.copytree(ROOT, place / "src", symlinks=True, ignore=ignored)
    known = stages("docker/Dockerfile")
    for name in ("package", "actor-venv"):
        subprocess.run([sys.executable, "-m", "venv", place / name], check=True)
        variables = VARIABLES | {"PATH": f"{place / name}/bin{os.pathsep}{os.environ['PATH']}"}
        for command in known[name].arguments("RUN")[len(known["build"].arguments("RUN")) :]:
            command = re.sub(r"--mount=\S+ ", "", command).replace("/wheels", f"{place}/wheels")
            options = {"shell": True, "cwd": place / "src", "env": variables, "stdin": subprocess.DEVNULL}
            done = subprocess.run(command, capture_output=True, text=True, **options)
            assert done.returncode == 0, command + done.stdout + done.stderr
    return place / "actor-venv"


def test_the_actor_image_is_small_plays_atari_and_has_no_tensorflow(environment, tmp_path):
    files = [path for path in environment.rglob("*") if path.is_file() and not path.is_symlink()]
    assert 100e6 < sum(path.stat().st_size for path in files) < 300e6
    names = {path.name.partition("-")[0] for path in environment.glob("lib/python3*/site-packages/*.dist-info")}
    assert {"seed_rl", "grpcio", "ale_py"} <= names
    assert not names & {"tensorflow", "keras", "tensorboard", "matplotlib", "h5py"}
    program = (
        "from seed_rl.envs.atari import Atari; env = Atari().make(2); print(env.reset(seed=1)[0].dtype); env.close()"
    )
    command = [environment / "bin/python", "-I", "-c", program]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.stdout == "uint8\n", done.stderr


def test_the_actor_image_plays_for_a_learner_with_tls_and_token_that_nobody_sees(
    environment, runs, rows, wait_for, secrets, has_no_secret, tmp_path
):
    logdir = tmp_path / "runs"
    settings = ("--gin_file=catch/vtrace", "--total_frames=1000000000", "--gin_param=Logs.metrics_interval_s=0.5")
    tls = (f"--tls_cert={secrets}/cert.pem", f"--tls_key={secrets}/key.pem", f"--token_file={secrets}/token")
    learner = runs.start("learner", "--server_address=0.0.0.0:0", *tls, *settings, f"--logdir={logdir}")
    port = int(wait_for(lambda: re.search(r"serving actors at 0\.0\.0\.0:(\d+)", learner.text()), learner)[1])
    trust = (f"--tls_ca={secrets}/cert.pem", f"--token_file={secrets}/token")
    options = {"program": [environment / "bin/seed_rl"], "env": VARIABLES, "cwd": tmp_path}
    actor = runs.start("actor", f"--server_address=127.0.0.1:{port}", "--tls_server_name=learner", *trust, **options)
    wait_for(lambda: any(row["env_frames"] > 5000 and row["environments"] == 32 for row in rows(logdir)), actor)

    health = [sys.executable, ROOT / "docker/health.py", f"--port={port}", "--ask"]
    subprocess.run([*health, *trust], check=True)
    stranger = subprocess.run([*health, trust[0]], capture_output=True, text=True)
    assert (stranger.returncode, "the learner asks for a token" in stranger.stderr) == (1, True)

    for process in map(psutil.Process, (learner.pid, actor.pid)):
        assert has_no_secret(" ".join([*process.cmdline(), *process.environ().values()]))
    learner.process.terminate()
    assert learner.wait(60) == 143, learner.text()
    written = [path.read_bytes().decode("latin-1") for path in logdir.rglob("*") if path.is_file()]
    assert len(written) > 3
    assert all(map(has_no_secret, [learner.text(), actor.text(), *written]))
