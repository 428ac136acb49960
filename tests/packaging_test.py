"""Builds the source distribution and, from it, the wheel; looks into the wheel and installs it elsewhere."""

from __future__ import annotations

import pathlib
import re
import shutil
import stat
import subprocess
import sys
import zipfile
from email.message import Message
from email.parser import Parser

import pytest
from packaging.requirements import Requirement

import seed_rl

ROOT = pathlib.Path(__file__).resolve().parents[1]
PACKAGES = ("seed_rl", "agents", "envs", "configs")
PYTHONS = ("3.10", "3.11", "3.12")


def run(*command: str | pathlib.Path, cwd: pathlib.Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(list(map(str, command)), cwd=cwd, capture_output=True, text=True, stdin=subprocess.DEVNULL)


def source_files(suffix: str) -> set[str]:
    """Names in the wheel of the repository's files with a suffix."""
    found = set()
    for package in PACKAGES:
        for path in (ROOT / package).rglob(f"*{suffix}"):
            name = path.relative_to(ROOT).as_posix()
            # Python before 3.13 follows the links in seed_rl/ or not, depending on the version.
            if not re.match(r"seed_rl/(agents|envs|configs)/", name):
                found.add(name if package == "seed_rl" else f"seed_rl/{name}")
    return found


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> pathlib.Path:
    """The wheel, built from a copy, so that nothing is written into the repository or left over from an old build."""
    copy = tmp_path_factory.mktemp("source")
    ignored = shutil.ignore_patterns("__pycache__", "*.egg-info")
    for package in PACKAGES:
        shutil.copytree(ROOT / package, copy / package, symlinks=True, ignore=ignored)
    for path in ROOT.iterdir():
        if path.is_file() and not path.name.startswith("."):
            shutil.copy(path, copy)
    done = run(sys.executable, "-m", "build", "--no-isolation", "--outdir", "dist", cwd=copy)
    assert done.returncode == 0, done.stdout + done.stderr
    (built,) = (copy / "dist").glob("*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory) -> pathlib.Path:
    """A folder that holds the installed package without its dependencies, away from the repository."""
    target = tmp_path_factory.mktemp("installed")
    done = run(sys.executable, "-m", "pip", "install", "--no-deps", "--no-index", "--target", target, wheel, cwd=target)
    assert done.returncode == 0, done.stdout + done.stderr
    return target


def metadata(wheel: pathlib.Path, name: str) -> str:
    with zipfile.ZipFile(wheel) as archive:
        (path,) = (n for n in archive.namelist() if n.endswith(f".dist-info/{name}"))
        return archive.read(path).decode()


def core_metadata(wheel: pathlib.Path) -> Message:
    return Parser().parsestr(metadata(wheel, "METADATA"))


def environment(python: str, extra: str = "") -> dict[str, str]:
    """What markers see on Linux with a Python version."""
    return {
        "python_version": python,
        "python_full_version": f"{python}.9",
        "sys_platform": "linux",
        "platform_system": "Linux",
        "platform_machine": "x86_64",
        "os_name": "posix",
        "implementation_name": "cpython",
        "platform_python_implementation": "CPython",
        "extra": extra,
    }


def pins(lock: str, python: str) -> dict[str, str]:
    """Versions by name that a lock file holds for a Python version on Linux."""
    found: dict[str, str] = {}
    for line in (ROOT / lock).read_text(encoding="utf-8").splitlines():
        if line and not line.lstrip().startswith("#"):
            requirement = Requirement(line)
            if requirement.marker is None or requirement.marker.evaluate(environment(python)):
                assert requirement.name not in found, f"{requirement.name} is pinned twice for Python {python}"
                (specifier,) = requirement.specifier
                assert specifier.operator == "=="
                found[requirement.name] = specifier.version
    return found


def test_wheel_has_one_top_level_name(wheel):
    with zipfile.ZipFile(wheel) as archive:
        tops = {name.partition("/")[0] for name in archive.namelist()}
    assert tops == {"seed_rl", f"seed_rl-{seed_rl.__version__}.dist-info"}


@pytest.mark.parametrize("suffix", [".py", ".gin", ".proto", ".pyi", "py.typed"])
def test_wheel_has_every_file_of_the_repository_once(wheel, suffix):
    expected = source_files(suffix)
    assert expected
    with zipfile.ZipFile(wheel) as archive:
        assert sorted(name for name in archive.namelist() if name.endswith(suffix)) == sorted(expected)


def test_links_became_files(wheel):
    with zipfile.ZipFile(wheel) as archive:
        assert not [i.filename for i in archive.infolist() if stat.S_ISLNK(i.external_attr >> 16)]
        for package in ("agents", "envs", "configs"):
            path = f"{package}/__init__.py"
            assert archive.read(f"seed_rl/{path}") == (ROOT / path).read_bytes()


def test_metadata_names_license_version_and_pythons(wheel):
    fields = core_metadata(wheel)
    assert fields["Version"] == seed_rl.__version__
    assert fields["License-Expression"] == "Apache-2.0"
    assert set(fields["Requires-Python"].split(",")) == {">=3.10", "<3.13"}


def test_entry_points(wheel):
    lines = metadata(wheel, "entry_points.txt").split("\n")
    assert "seed_rl = seed_rl.__main__:main" in lines
    assert "[seed_rl.envs]" in lines
    for suite in (
        "atari = seed_rl.envs.atari:",
        "catch = seed_rl.envs.catch:",
        "counting = tests.support.",
        "dmlab = seed_rl.envs.dmlab:",
        "football = seed_rl.envs.football:",
        "gym = seed_rl.envs.gym:",
        "memory = tests.support.",
    ):
        assert [line for line in lines if line.startswith(suite)]


@pytest.mark.parametrize("python", PYTHONS)
def test_locks_fit_the_requirements_and_each_other(wheel, python):
    runtime, dev = pins("requirements.lock", python), pins("requirements-dev.lock", python)
    assert runtime
    assert runtime.items() < dev.items()
    fields = core_metadata(wheel)
    extras = fields.get_all("Provides-Extra", [])
    assert set(extras) == {"bucket", "dev", "dmlab", "docs", "envpool", "gfootball", "ray", "wandb"}
    requirements = [Requirement(text) for text in fields.get_all("Requires-Dist", [])]
    assert {r.name for r in requirements} >= {"tensorflow", "grpcio", "pytest", "fsspec", "envpool", "gym"}
    for requirement in requirements:
        lock = runtime if requirement.marker is None else dev
        wanted = requirement.marker is None or any(
            requirement.marker.evaluate(environment(python, extra)) for extra in extras
        )
        assert not wanted or requirement.specifier.contains(lock[requirement.name]), (
            f"{requirement}: relock with scripts/lock.sh"
        )


@pytest.mark.parametrize("python", PYTHONS)
def test_locks_of_the_images_agree_with_the_runtime_one(python):
    runtime = pins("requirements.lock", python)
    actor, cpu, gpu, tpu = (pins(f"requirements-{image}.lock", python) for image in ("actor", "cpu", "gpu", "tpu"))
    assert actor.items() < runtime.items() < cpu.items() < gpu.items(), "relock with scripts/lock.sh"
    lines = (ROOT / "requirements-actor.in").read_text(encoding="utf-8").splitlines()
    assert {line for line in lines if not line.startswith("#")} <= set(actor)
    assert not {name for name in actor if re.search("tensorflow|keras|tensorboard|nvidia", name)}
    assert "gcsfs" in cpu, "for a log directory in a bucket"
    assert all(name.startswith("nvidia-") for name in set(gpu) - set(cpu))
    # TensorFlow for TPUs lags behind and brings its own TensorBoard.
    assert {name for name, _ in cpu.items() - tpu.items()} == {"tensorflow", "tensorboard"}
    assert set(tpu) - set(cpu) == {"tensorflow-tpu", "libtpu"}


def test_installed_package_imports_by_its_name_only(installed):
    program = f"""
import pathlib, sys
target = pathlib.Path({str(installed)!r})
sys.path.insert(0, str(target))
import seed_rl, seed_rl.agents, seed_rl.configs, seed_rl.envs
for module in (seed_rl, seed_rl.agents, seed_rl.configs, seed_rl.envs):
    assert target in pathlib.Path(module.__file__).parents, module.__file__
from importlib import resources
assert [file for file in resources.files("seed_rl.configs").joinpath("catch").iterdir() if file.name.endswith(".gin")]
for name in ("agents", "envs", "configs"):
    try:
        __import__(name)
    except ModuleNotFoundError:
        continue
    raise AssertionError(name + " is importable")
"""
    done = run(sys.executable, "-I", "-c", program, cwd=installed)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("package", ["agents", "envs"])
def test_import_at_the_root_under_another_name_fails_with_a_clear_sentence(package):
    done = run(sys.executable, "-c", f"import {package}", cwd=ROOT)
    assert done.returncode == 1
    assert re.match(rf"ImportError: .*seed_rl\.{package}", done.stderr.splitlines()[-1])
