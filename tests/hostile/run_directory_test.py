"""Run directories of strangers are data, or an error: nothing is executed, written elsewhere or used up."""

import json
import os
import re
import resource
import shutil
import sys

import numpy as np
import pytest

from seed_rl.cli.main import main
from seed_rl.experiment import config_files
from seed_rl.runs.fleet import ELSEWHERE
from seed_rl.runs.run import Run
from seed_rl.runs.run_directory import CannotUse
from seed_rl.weights import checkpoints
from tests.evaluation.conftest import save_run

CHECKPOINT = "checkpoints/checkpoint-000000000007.npz"
SHELL = """from __gin__ import dynamic_registration
import subprocess
from seed_rl import experiment
subprocess.getoutput.cmd = 'touch %s'
experiment.Experiment.env = @subprocess.getoutput()
"""
MAX_GROWTH = 300 << 20
"""Bytes of memory, most of which TensorFlow takes for the first policy."""


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """The log directory of an honest run."""
    directory = tmp_path_factory.mktemp("honest") / "run"
    save_run(str(directory), "catch/vtrace")
    rows = [{"env_frames": n, "seconds": n, "episode_return": n} for n in (10, 20)]
    (directory / "metrics.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    assert main(["eval", f"--logdir={directory}", "--episodes=1"]) == 0
    return directory


class Place:
    """A copy of the run, and a file of the reader's that nobody else may touch."""

    def __init__(self, run, tmp_path):
        self.run, self.loot, self.mine = tmp_path / "run", tmp_path / "loot", tmp_path / "mine"
        shutil.copytree(run, self.run)
        self.mine.mkdir()
        (self.mine / "file").write_text("precious")

    def is_untouched(self):
        return os.listdir(self.mine) == ["file"] and (self.mine / "file").read_text() == "precious"

    def settings(self, **changes):
        path = self.run / "config.json"
        saved = json.loads(path.read_text()) | {name.replace("__", "."): value for name, value in changes.items()}
        path.write_text(json.dumps({name: value for name, value in saved.items() if value is not None}))

    def gym(self, **changes):
        """Another environment, and a module in the directory, which leaves loot when it is imported."""
        self.settings(env__kind="Gym", env__rows=None, env__columns=None, **changes)
        (self.run / "stranger.py").write_text(f"open({str(self.loot)!r}, 'w').close()\n")

    def nan(self):
        path = str(self.run / CHECKPOINT)
        arrays, state = checkpoints.load(path)
        checkpoints.write(path, {name: np.full_like(array, np.nan) for name, array in arrays.items()}, state)

    def link(self, name, target="file"):
        path = self.run / name
        if path.is_dir():
            shutil.rmtree(path)
        path.unlink(missing_ok=True)
        path.symlink_to(self.mine / target)

    def pipe(self, name):
        (self.run / name).unlink(missing_ok=True)
        os.mkfifo(self.run / name)


WAYS = {
    # To execute
    "a shell command in the gin file": lambda p: (p.run / "config.gin").write_text(SHELL % p.loot),
    "an environment inside of another": lambda p: p.gym(
        env__id="GymV26Environment-v0", env__options='{"env_id": "stranger:Env-v0"}'
    ),
    # To write
    "a link where an evaluation is being written": lambda p: p.link("evaluation.json.partial"),
    "a link for the evaluation": lambda p: p.link("evaluation.json"),
    "a command for the terminal": lambda p: p.gym(env__id="\x1b]0;mine\x07\nseed_rl: all is well"),
    # To exhaust
    "a pipe for the configuration": lambda p: p.pipe("config.json"),
    "endless zeros for a checkpoint": lambda p: p.link(CHECKPOINT, "/dev/zero"),
    "a board of a terabyte": lambda p: p.settings(env__rows=10**6, env__columns=10**6),
    "layers for 18 GB each": lambda p: p.settings(agent__hidden=65_536, agent__mlp_layers=9),
    "weights that are no numbers": lambda p: p.nan(),
}


@pytest.mark.parametrize("attack", WAYS.values(), ids=WAYS)
def test_a_strangers_run_is_data_or_one_sentence(attack, run, tmp_path, monkeypatch, capsys):
    place = Place(run, tmp_path)
    attack(place)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(place.run)
    monkeypatch.delitem(sys.modules, "stranger", raising=False)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    code = main(["eval", "--episodes=1", f"--logdir={place.run}"])
    said = capsys.readouterr()
    if code:
        assert code in (1, 2)
        (sentence,) = said.err.splitlines()[-1:]
        assert re.match("seed_rl eval: |  ", sentence)
        assert "Traceback" not in said.err
    assert all(map(str.isprintable, (said.err + said.out).replace("\n", "")))
    assert len(said.err) < 2000
    assert not place.loot.exists()
    assert "stranger" not in sys.modules
    assert place.is_untouched()
    assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) << 10 < MAX_GROWTH


RESUMED = {
    "a link for the log": lambda p: p.link("learner.log"),
    "a link for the checkpoints": lambda p: p.link("checkpoints", "."),
    "a pipe for the lock": lambda p: p.pipe("lock"),
}


@pytest.mark.parametrize("attack", RESUMED.values(), ids=RESUMED)
def test_a_strangers_run_that_is_resumed_writes_nowhere_else(attack, run, tmp_path):
    place = Place(run, tmp_path)
    attack(place)
    with pytest.raises(CannotUse, match=f"^{place.run}/.* is not a regular file, or links out of the log directory"):
        Run(config_files.load(["catch/vtrace"]), str(place.run), actors=ELSEWHERE).__enter__()
    assert place.is_untouched()


def test_links_inside_of_a_log_directory_are_its_own_affair(run, tmp_path):
    place = Place(run, tmp_path)
    (place.run / "newest.npz").symlink_to(CHECKPOINT)
    (place.run / "wandb").mkdir()
    (place.run / "wandb/debug.log").symlink_to(place.mine / "file")  # as wandb does
    (tmp_path / "elsewhere").symlink_to(place.run)
    with Run(config_files.load(["catch/vtrace"]), str(tmp_path / "elsewhere"), actors=ELSEWHERE):
        assert (place.run / "learner.log").exists()
