"""Each neighbour can be taken away: the core and the other neighbours do without it."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

from tests import architecture_test as architecture

ROOT = architecture.ROOT
WING = ROOT / "seed_rl/extras"
COMPOSITION = ROOT / "tests/extras/composition_test.py"
"""Knows all neighbours; left out with any of them."""
NEIGHBOURS = sorted(path.parent.name for path in WING.glob("*/__init__.py"))


def found(pattern, files):
    """The files of the repository in which a pattern occurs."""
    occurs = re.compile(pattern, re.MULTILINE)
    return [path for path in ROOT.glob(files) if occurs.search(path.read_text(encoding="utf-8"))]


def check(names, target):
    """List the commands and train Catch in a copy of the tree without some neighbours; return what runs Python there.

    Their tests, experiments and recorded runs, and programs that use them, benchmarks and pages, are left out, too.
    """
    places = (WING, ROOT / "tests/extras")
    left_out = [str(COMPOSITION), *(f"{folder}/{name}" for name in names for folder in places)]
    theirs = rf"seed_rl\.extras\.({'|'.join(names)})\b"
    if found(f"from {theirs}", "benchmarks/*.py") or found(f"from {theirs}", "scripts/*.py"):
        tests = found(r"^from (benchmarks|scripts import (atari_page|pages))\b", "tests/**/*_test.py")
        left_out += [f"{ROOT}/benchmarks", f"{ROOT}/tests/benchmarks", *map(str, tests)]
    left_out += map(str, found(f"import {theirs}", "configs/**/*.gin"))
    if records := found(f"import {theirs}", "docs/**/*.gin"):
        left_out += [f"{ROOT}/tests/pages_test.py", *(str(path.parent) for path in records)]

    def ignored(folder, entries):
        return [entry for entry in entries if entry == "__pycache__" or f"{folder}/{entry}" in left_out]

    for folder in ("seed_rl", "agents", "envs", "configs", "benchmarks", "docs", "examples", "scripts", "tests"):
        if f"{ROOT}/{folder}" not in left_out:
            shutil.copytree(ROOT / folder, target / folder, symlinks=True, ignore=ignored)
    for name in ("README.md", "CHANGELOG.md", "pyproject.toml", "setup.py"):
        shutil.copy(ROOT / name, target / name)
    environment = {**os.environ, "PYTHONPATH": str(target)}

    def python(*arguments):
        command = [sys.executable, *arguments]
        done = subprocess.run(command, cwd=target, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
        return done.stdout

    listing = "print(json.dumps({n: c.value for n, c in m.commands().items()}))"
    *help_lines, last = python("-c", f"import json, seed_rl.cli.main as m; m.main(['--help']); {listing}").splitlines()
    listed = json.loads(last)
    assert {line.split()[0] for line in help_lines if line.startswith("  ")} == set(listed)
    assert not [place for place in listed.values() for name in names if f"extras.{name}." in place]
    small = ("Actors.envs_per_group=1", "Inference.max_batch_size=1", "Experiment.batch_size=4")
    arguments = [*(f"--gin_param={binding}" for binding in small), "--total_frames=160", "--logdir=run"]
    python("-m", "seed_rl", "train", "--gin_file=catch/vtrace", *arguments)
    assert list((target / "run/checkpoints").glob("checkpoint-*.npz"))
    return python


def test_the_core_trains_without_the_wing(tmp_path):
    check(NEIGHBOURS, tmp_path)


def test_only_its_own_tests_know_a_neighbour():
    tests = [path for path in (ROOT / "tests").rglob("*.py") if path not in (pathlib.Path(__file__), COMPOSITION)]
    knowing = {
        (str(path.relative_to(ROOT)), name)
        for path in tests
        for _, imported in architecture.imports(path.read_text(encoding="utf-8"))
        for name in NEIGHBOURS
        if architecture.is_inside(imported, f"seed_rl.extras.{name}")
        and not path.is_relative_to(ROOT / "tests/extras" / name)
    }
    assert knowing == set()


@pytest.mark.neighbours
@pytest.mark.parametrize("name", NEIGHBOURS)
def test_the_quick_tests_of_the_others_pass_without_a_neighbour(name, tmp_path):
    python = check([name], tmp_path)
    python("-m", "pytest", "-q", "--quick", "--numprocesses=2", "tests")
