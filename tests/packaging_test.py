"""What is shipped: the content of the wheel, and how a checkout answers."""

from __future__ import annotations

import os
import pathlib
import re
import shutil
import subprocess
import sys
import zipfile

import pytest

from tests.support.source import copy_source

ROOT = pathlib.Path(__file__).resolve().parents[1]
MOVED = ("agents", "configs", "envs")
RELEASE = "0.1.0"
SUFFIXES = (".py", ".csv", ".gin", ".md", ".proto", ".pyi", "py.typed")


def test_the_wheel_has_the_package_and_nothing_else(tmp_path):
    copy_source(tmp_path)  # so that no earlier build leaves anything in it
    build = [sys.executable, "-m", "build", "--no-isolation", "--outdir", "dist"]
    done = subprocess.run(build, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    (built,) = tmp_path.glob("dist/*.whl")
    wheel = zipfile.ZipFile(built)
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


def test_a_checkout_that_cannot_be_written_gets_a_sentence(tmp_path):
    (tmp_path / "scripts").mkdir()
    script = shutil.copy(ROOT / "scripts/setup_venv.sh", tmp_path / "scripts")
    (tmp_path / ".venv.lock").mkdir()  # in the way, also for root
    elsewhere = {**os.environ, "SEED_RL_VENV": str(tmp_path / ".venv")}  # not the environment that runs this test
    done = subprocess.run(["bash", script, "runtime"], capture_output=True, text=True, env=elsewhere)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"{tmp_path} can't be written, as it must: copy the repository to where it can be.\n"
