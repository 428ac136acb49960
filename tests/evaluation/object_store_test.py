"""Runs in object stores are evaluated like those on this machine; no more is fetched than that takes."""

import json
import os
import pathlib
import shutil

import numpy as np
import pytest

from seed_rl.api import load_policy
from seed_rl.cli.main import main


@pytest.fixture
def stored_run(saved_run, fetched):
    """The URL of a run with three checkpoints, of which the last is damaged, and much else; and its directory."""
    logdir = pathlib.Path(saved_run("catch/vtrace", "VTrace.hidden = 8")[0])
    first = logdir / "checkpoints/checkpoint-000000000007.npz"
    shutil.copy(first, str(first).replace("7.npz", "8.npz"))
    pathlib.Path(str(first).replace("7.npz", "9.npz")).write_bytes(first.read_bytes()[:-1000])
    (logdir / "checkpoints/replay-000000000009.npz").write_bytes(b"many gigabytes")
    (logdir / "learner.log").write_text("much")
    fetched.clear()
    return f"file://{logdir}", str(logdir)


def test_a_policy_takes_the_configuration_and_the_newest_checkpoint_that_can_be_read(stored_run, fetched, caplog):
    url, logdir = stored_run
    policy = load_policy(url, greedy=True)
    assert policy.checkpoint == f"{url}/checkpoints/checkpoint-000000000008.npz"
    taken = ["config.json", "checkpoints/checkpoint-000000000009.npz", "checkpoints/checkpoint-000000000008.npz"]
    assert fetched == [f"{logdir}/{name}" for name in taken]
    assert f"{url}/{taken[1]} is damaged: its checksum doesn't match its content" in caplog.text
    here = load_policy(url, f"{logdir}/{taken[2]}", greedy=True)
    assert here.checkpoint == f"{logdir}/{taken[2]}"
    for ours, theirs in zip(policy.agent.variables, here.agent.variables, strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_a_command_takes_what_it_needs_and_leaves_its_result_here(stored_run, fetched, tmp_path, monkeypatch, capsys):
    url, _ = stored_run
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    assert main(["eval", f"--logdir={url}", "--episodes=2", "--envs=2"]) == 0
    assert os.listdir() == ["evaluation.json"]
    assert json.loads(pathlib.Path("evaluation.json").read_text())["logdir"] == url
    assert not any(path.endswith(("learner.log", "replay-000000000009.npz")) for path in fetched)
    capsys.readouterr()
    for command, place in (("eval", "evaluation.json"), ("export", "export"), ("play", "play.gif")):
        assert main([command, f"--logdir={url}", f"--output={url}/{place}"]) == 2
        assert capsys.readouterr().err == f"seed_rl {command}: --output must be a local path, got {url}/{place}\n"
