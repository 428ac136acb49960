"""Environments from other packages, in whole runs: that of docs/environments.md, and one that doesn't exist."""

import os
import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
GUIDE = (ROOT / "docs/environments.md").read_text(encoding="utf-8")
GAME, SUITE, PROJECT, CONFIG = "corridor/game.py", "corridor/__init__.py", "pyproject.toml", "corridor.gin"


def text_of(name):
    """The first code block after the mention of a file."""
    return re.search(rf"`{re.escape(name)}`:\n\n```\w+\n(.*?)```", GUIDE, re.DOTALL)[1]


@pytest.fixture
def installed(tmp_path):
    """A folder in which the package is installed; the gin file is beside it."""
    source = tmp_path / "source"
    for name in (GAME, SUITE, PROJECT, CONFIG):
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_text(text_of(name))
    command = (sys.executable, "-m", "pip", "install", "--no-deps", "--no-build-isolation", "--no-index")
    target = tmp_path / "installed"
    done = subprocess.run([*command, "--target", target, source], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return target


def test_it_takes_less_than_thirty_lines_beside_the_game():
    assert sum(bool(line) for name in (SUITE, PROJECT, CONFIG) for line in text_of(name).splitlines()) < 30


def test_it_keeps_the_rules_and_is_learned(installed, runs, rows, tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, [str(installed), os.environ.get("PYTHONPATH")])))
    program = """
from corridor import Corridor
from seed_rl.envs.conformance import check_suite
check_suite(Corridor(), steps=200)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    config, logdir = str(tmp_path / "source" / CONFIG), str(tmp_path / "run")
    run = runs.run("train", f"--gin_file={config}", f"--logdir={logdir}", "--total_frames=60000")
    assert run.returncode == 0, run.text()
    assert rows(logdir)[-1]["episode_return"] > 0.8, "walking straight gives 0.92"


def test_an_environment_that_cannot_be_made_is_named_in_a_sentence(runs, tmp_path):
    run = runs.run("train", "--gin_file=gym/cartpole", "--gin_param=Gym.id = 'CartPoll-v1'", f"--logdir={tmp_path}/run")
    assert run.returncode == 2
    assert "seed_rl train: CartPoll-v1 can't be made: Environment `CartPoll` doesn't exist." in run.text()
    assert "Traceback" not in run.text()
