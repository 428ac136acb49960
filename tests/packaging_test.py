"""What is shipped: builds the wheel from a copy of the sources, installs it elsewhere, and compares the locks."""

from __future__ import annotations

import os
import pathlib
import re
import shutil
import subprocess
import sys
import zipfile
from email.parser import Parser

import pytest
from packaging.requirements import Requirement

from tests.support.source import copy_source

ROOT = pathlib.Path(__file__).resolve().parents[1]
MOVED = ("agents", "configs", "envs")
RELEASE = "0.1.0"
SUFFIXES = (".py", ".csv", ".gin", ".md", ".proto", ".pyi", "py.typed")


def run(*command, cwd):
    done = subprocess.run([sys.executable, *map(str, command)], cwd=cwd, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> zipfile.ZipFile:
    """The wheel, built from a copy, so that no earlier build leaves anything in it."""
    folder = tmp_path_factory.mktemp("wheel")
    copy_source(folder)
    run("-m", "build", "--no-isolation", "--outdir", "dist", cwd=folder)
    (built,) = folder.glob("dist/*.whl")
    return zipfile.ZipFile(built)


@pytest.fixture(scope="module")
def metadata(wheel):
    """Reads a file of the wheel's metadata."""
    return lambda name: wheel.read(f"seed_rl-{RELEASE}.dist-info/{name}").decode()


def test_the_wheel_has_the_package_and_nothing_else(wheel):
    assert {name.partition("/")[0] for name in wheel.namelist()} == {"seed_rl", f"seed_rl-{RELEASE}.dist-info"}
    links = re.compile(rf"seed_rl/({'|'.join(MOVED)})/")  # Python before 3.13 may follow them
    sources = {
        f"seed_rl/{path.relative_to(ROOT)}" if folder in MOVED else str(path.relative_to(ROOT))
        for folder in ("seed_rl", *MOVED)
        for path in (ROOT / folder).rglob("*")
        if path.name.endswith(SUFFIXES) and not links.match(str(path.relative_to(ROOT)))
    }
    assert {pathlib.PurePath(name).suffix for name in sources} >= {".py", ".gin", ".proto", ".pyi"}
    assert sorted(name for name in wheel.namelist() if "dist-info" not in name) == sorted(sources)
    assert wheel.read("seed_rl/agents/__init__.py") == (ROOT / "agents/__init__.py").read_bytes()


@pytest.mark.parametrize("package", ["agents", "envs"])
def test_import_at_the_root_by_another_name_fails_with_a_sentence(package):
    done = subprocess.run([sys.executable, "-c", f"import {package}"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 1
    assert re.match(rf"ImportError: .*seed_rl\.{package}", done.stderr.splitlines()[-1])


def applies(requirement: Requirement, python: str, extra: str = "") -> bool:
    """Whether a requirement is one for a Python version, on a machine like this."""
    known = {"python_version": python, "python_full_version": f"{python}.9", "extra": extra}
    return requirement.marker is None or requirement.marker.evaluate(known)


def pins(lock: str, python: str) -> dict[str, str]:
    """Versions by name that a lock holds for a Python version on Linux."""
    text = (ROOT / f"requirements/{lock}.lock").read_text(encoding="utf-8").replace("\\\n", "")
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    assert all(re.search(r" --hash=sha256:[0-9a-f]{64}$", line) for line in lines), "relock with scripts/lock.sh"
    pinned = [Requirement(line.partition(" --hash")[0]) for line in lines]
    found = [each for each in pinned if applies(each, python)]
    assert len({each.name for each in found}) == len(found) > 0
    return {each.name: re.fullmatch(r"==([^,]+)", str(each.specifier))[1] for each in found}


@pytest.mark.parametrize("python", ["3.11", "3.12", "3.13"])
def test_the_locks_fit_the_requirements_and_each_other(metadata, python):
    runtime, dev, actor, cpu, gpu, tpu, docs = (
        pins(lock, python) for lock in ("runtime", "dev", "actor", "cpu", "gpu", "tpu", "docs")
    )
    assert runtime.items() < dev.items(), "relock with scripts/lock.sh"
    for part in (docs, *(pins(lock, python) for lock in ("build", "dmlab", "football"))):
        assert part.items() < dev.items(), "relock with scripts/lock.sh"
    assert pins("engine", python).keys() == {"gfootball"}
    assert actor.items() < runtime.items() < cpu.items() < gpu.items(), "relock with scripts/lock.sh"
    fields = Parser().parsestr(metadata("METADATA"))
    for requirement in map(Requirement, fields.get_all("Requires-Dist")):
        if any(applies(requirement, python, extra) for extra in ["", *fields.get_all("Provides-Extra")]):
            lock = runtime if requirement.marker is None else dev
            assert requirement.specifier.contains(lock[requirement.name]), f"{requirement}: relock with scripts/lock.sh"

    wanted = (ROOT / "requirements/actor.in").read_text(encoding="utf-8").splitlines()
    assert {line for line in wanted if not line.startswith("#")} <= set(actor)
    assert not {name for name in actor if re.search("tensorflow|keras|tensorboard|nvidia", name)}
    assert "gcsfs" in cpu, "for a log directory in a bucket"
    assert all(name.startswith("nvidia-") for name in set(gpu) - set(cpu))
    # TensorFlow for TPUs lags behind and brings its own TensorBoard.
    assert {name for name, _ in cpu.items() - tpu.items()} == {"tensorflow", "tensorboard"}
    assert set(tpu) - set(cpu) == {"tensorflow-tpu", "libtpu"}


def test_a_checkout_that_cannot_be_written_gets_a_sentence(tmp_path):
    (tmp_path / "scripts").mkdir()
    script = shutil.copy(ROOT / "scripts/setup_venv.sh", tmp_path / "scripts")
    (tmp_path / ".venv.lock").mkdir()  # in the way, also for root
    elsewhere = {**os.environ, "SEED_RL_VENV": str(tmp_path / ".venv")}  # not the environment that runs this test
    done = subprocess.run(["bash", script, "runtime"], capture_output=True, text=True, env=elsewhere)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"{tmp_path} can't be written, as it must: copy the repository to where it can be.\n"
