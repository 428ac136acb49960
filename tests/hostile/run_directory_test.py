"""Run directories of strangers are data, or one sentence: nothing is executed, written elsewhere or used up."""

import hashlib
import io
import json
import os
import pickle
import re
import resource
import shutil
import struct
import sys
import zipfile

import numpy as np
import pytest

from seed_rl.cli.main import main
from seed_rl.experiment import config_files
from seed_rl.runs.run import ELSEWHERE, Run
from seed_rl.runs.run_directory import CannotUse
from seed_rl.system import archives
from seed_rl.weights import checkpoints

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
    experiment = config_files.load(["catch/vtrace"])
    config_files.save_config(experiment, str(directory))
    (directory / "checkpoints").mkdir()
    variables = checkpoints.name_variables("agent", experiment.build_agent().variables)
    arrays = {name: variable.numpy() for name, variable in variables.items()}
    checkpoints.save(str(directory / "checkpoints"), 7, arrays, {"counters": {"env_frames": 700}}, keep=3)
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

    def settings(self, **changes):
        path = self.run / "config.json"
        saved = json.loads(path.read_text()) | {name.replace("__", "."): value for name, value in changes.items()}
        path.write_text(json.dumps({name: value for name, value in saved.items() if value is not None}))

    def gym(self, **changes):
        """Another environment."""
        self.settings(env__kind="Gym", env__rows=None, env__columns=None, **changes)

    def module(self):
        """A module in the directory, which leaves loot when it is imported."""
        (self.run / "stranger.py").write_text(f"open({str(self.loot)!r}, 'w').close()\n")

    def checkpoint(self, content):
        (self.run / CHECKPOINT).write_bytes(content)

    def arrays(self, **changes):
        """A checkpoint with a valid checksum and other content."""
        loaded, state = checkpoints.load(str(self.run / CHECKPOINT))
        text = changes.pop("state", json.dumps(state).encode())
        file = io.BytesIO()
        with archives.writing(file) as add:
            for name, array in {"counters.json": np.frombuffer(text, np.uint8), **loaded, **changes}.items():
                add(name, array)
        self.checkpoint(file.getvalue())

    def nan(self):
        loaded, _ = checkpoints.load(str(self.run / CHECKPOINT))
        self.arrays(**{name: np.full(array.shape, np.nan, array.dtype) for name, array in loaded.items()})

    def members(self, content, compression=zipfile.ZIP_STORED):
        """A checkpoint with a valid checksum and a member that no honest writer makes."""
        file = io.BytesIO()
        with zipfile.ZipFile(file, "w", compression) as archive:
            archive.writestr("counters.json.npy", content)
            archive.comment = bytes(32)
        checked = file.getvalue()[:-32]
        self.checkpoint(checked + hashlib.sha256(checked).digest())

    def link(self, name, target="file"):
        path = self.run / name
        if path.is_dir():
            shutil.rmtree(path)
        path.unlink(missing_ok=True)
        path.symlink_to(self.mine / target)

    def pipe(self, name):
        (self.run / name).unlink(missing_ok=True)
        os.mkfifo(self.run / name)

    def sparse(self, name, size):
        with open(self.run / name, "wb") as file:
            file.truncate(size)


def npy(header, data=b""):
    text = f"{header}\n".encode()
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + data


class Loot:
    def __reduce__(self):
        return os.system, ("touch loot",)


def pickled(place):
    content = io.BytesIO()
    np.save(content, np.array([Loot()], object), allow_pickle=True)
    return content.getvalue()


HUGE = npy("{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999,), }")
EVAL, PLOT, SCORE = ["eval", "--episodes=1", "--logdir={}"], ["plot", "{}"], ["plot", "--x=score", "{}"]

WAYS = {
    # To execute
    "a shell command in the gin file": (EVAL, lambda p: (p.run / "config.gin").write_text(SHELL % p.loot)),
    "an import in the gin file": (EVAL, lambda p: (p.module(), (p.run / "config.gin").write_text("import stranger\n"))),
    "a shell command for a plot of scores": (SCORE, lambda p: (p.run / "config.gin").write_text(SHELL % p.loot)),
    "an environment of another kind": (EVAL, lambda p: p.settings(env__kind="Popen")),
    "an agent of another kind": (EVAL, lambda p: p.settings(agent__kind="os.system")),
    "a custom torso": (EVAL, lambda p: (p.module(), p.settings(agent__torso="stranger:Torso"))),
    "a custom core": (EVAL, lambda p: (p.module(), p.settings(agent__core="stranger:Core"))),
    "a custom environment": (EVAL, lambda p: (p.module(), p.gym(env__id="stranger:Env-v0"))),
    "an environment inside of another": (
        EVAL,
        lambda p: (p.module(), p.gym(env__id="GymV26Environment-v0", env__options='{"env_id": "stranger:Env-v0"}')),
    ),
    "a custom simulator": (
        EVAL,
        lambda p: p.settings(
            env__kind="DMLab", env__rows=None, env__columns=None, env__runfiles_path=str(p.run), env__level_cache="x"
        ),
    ),
    "a pickle for a checkpoint": (EVAL, lambda p: p.checkpoint(pickle.dumps(Loot()))),
    "pickled objects in a checkpoint": (EVAL, lambda p: p.members(pickled(p))),
    # To write
    "a link where an evaluation is being written": (EVAL, lambda p: p.link("evaluation.json.partial")),
    "a link for the evaluation": (EVAL, lambda p: p.link("evaluation.json")),
    "a command for the terminal": (EVAL, lambda p: p.gym(env__id="\x1b]0;mine\x07\nseed_rl: all is well")),
    # To exhaust
    "a configuration of a tebibyte": (EVAL, lambda p: p.sparse("config.json", 1 << 40)),
    "a deep configuration": (EVAL, lambda p: (p.run / "config.json").write_text('{"a":' * 150_000)),
    "a configuration that is null": (SCORE, lambda p: (p.run / "config.json").write_text("null")),
    "a pipe for the configuration": (EVAL, lambda p: p.pipe("config.json")),
    "a pipe for a checkpoint": (EVAL, lambda p: p.pipe(CHECKPOINT)),
    "a pipe for the metrics": (PLOT, lambda p: p.pipe("metrics.jsonl")),
    "endless zeros for a checkpoint": (EVAL, lambda p: p.link(CHECKPOINT, "/dev/zero")),
    "a board of a terabyte": (EVAL, lambda p: p.settings(env__rows=10**6, env__columns=10**6)),
    "layers for 18 GB each": (EVAL, lambda p: p.settings(agent__hidden=65_536, agent__mlp_layers=9)),
    "a number of filters that is none": (
        EVAL,
        lambda p: p.settings(agent__torso="deep", agent__channels=[10**40], agent__frame_stack=64),
    ),
    "frames without end": (EVAL, lambda p: p.arrays(state=b'{"counters": {"env_frames": 1e999}}')),
    "frames of many digits": (EVAL, lambda p: p.arrays(state=b'{"counters": {"env_frames": %s}}' % (b"9" * 4000))),
    "a deep state": (EVAL, lambda p: p.arrays(state=b"[" * 10**6)),
    "a state that is null": (EVAL, lambda p: p.arrays(state=b"null")),
    "a checkpoint that grows": (EVAL, lambda p: p.members(HUGE + bytes(10**8), zipfile.ZIP_DEFLATED)),
    "an array that is larger than it is": (EVAL, lambda p: p.members(HUGE)),
    "weights of text": (EVAL, lambda p: p.arrays(**{"agent/000/kernel": np.array(["a"])})),
    "weights that are no numbers": (EVAL, lambda p: p.nan()),
    "a line of 100 MB": (PLOT, lambda p: p.sparse("metrics.jsonl", 10**8)),
    "a hundred thousand lines that are no rows": (PLOT, lambda p: (p.run / "metrics.jsonl").write_text("5\n" * 10**5)),
}


@pytest.mark.parametrize(("command", "attack"), WAYS.values(), ids=WAYS)
def test_a_strangers_run_is_data_or_one_sentence(command, attack, run, tmp_path, monkeypatch, capsys):
    place = Place(run, tmp_path)
    attack(place)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(place.run)
    monkeypatch.delitem(sys.modules, "stranger", raising=False)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    code = main([part.format(place.run) for part in command])
    said = capsys.readouterr()
    if code:
        assert code in (1, 2)
        (sentence,) = said.err.splitlines()[-1:]
        assert re.match(rf"seed_rl {command[0]}: |  ", sentence)
        assert "Traceback" not in said.err
    assert all(map(str.isprintable, (said.err + said.out).replace("\n", "")))
    assert len(said.err) < 2000
    assert not place.loot.exists()
    assert not (tmp_path / "loot").exists()
    assert "stranger" not in sys.modules
    assert os.listdir(place.mine) == ["file"]
    assert (place.mine / "file").read_text() == "precious"
    assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) << 10 < MAX_GROWTH


RESUMED = {
    "a link for the log": lambda p: p.link("learner.log"),
    "a link for the lock": lambda p: p.link("lock"),
    "a link for the metrics": lambda p: p.link("metrics.jsonl"),
    "a link for a new file": lambda p: p.link("metrics.unreadable", "new"),
    "a link for the checkpoints": lambda p: p.link("checkpoints", "."),
    "a link to a link": lambda p: (p.link("films", "."), (p.run / "actors").symlink_to("films")),
    "a pipe for the log": lambda p: p.pipe("learner.log"),
    "a pipe for the lock": lambda p: p.pipe("lock"),
    "a pipe for the configuration": lambda p: p.pipe("config.json"),
}


@pytest.mark.parametrize("attack", RESUMED.values(), ids=RESUMED)
def test_a_strangers_run_that_is_resumed_writes_nowhere_else(attack, run, tmp_path):
    place = Place(run, tmp_path)
    attack(place)
    with pytest.raises(CannotUse, match=f"^{place.run}/.* is not a regular file, or links out of the log directory"):
        Run(config_files.load(["catch/vtrace"]), str(place.run), actors=ELSEWHERE).__enter__()
    assert os.listdir(place.mine) == ["file"]
    assert (place.mine / "file").read_text() == "precious"


def test_links_inside_of_a_log_directory_are_its_own_affair(run, tmp_path):
    place = Place(run, tmp_path)
    (place.run / "newest.npz").symlink_to(CHECKPOINT)
    (place.run / "wandb").mkdir()
    (place.run / "wandb/debug.log").symlink_to(place.mine / "file")  # as wandb does
    (tmp_path / "elsewhere").symlink_to(place.run)
    with Run(config_files.load(["catch/vtrace"]), str(tmp_path / "elsewhere"), actors=ELSEWHERE):
        assert (place.run / "learner.log").exists()
