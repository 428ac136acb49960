"""A run in an object store is evaluated like one on this machine; no more is fetched than that takes."""

import json
import os
import pathlib
import shutil

import pytest

from seed_rl.cli.main import main


def test_eval_takes_the_newest_checkpoint_that_can_be_read_and_leaves_its_result_here(
    saved_run, fetched, tmp_path, monkeypatch, caplog
):
    logdir = pathlib.Path(saved_run("catch/vtrace", "VTrace.hidden = 8")[0])
    first, newer, damaged = (logdir / f"checkpoints/checkpoint-{n:012d}.npz" for n in (7, 8, 9))
    shutil.copy(first, newer)
    damaged.write_bytes(first.read_bytes()[:-1000])
    (logdir / "checkpoints/replay-000000000009.npz").write_bytes(b"many gigabytes")
    (logdir / "learner.log").write_text("much")
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    fetched.clear()
    assert main(["eval", f"--logdir=file://{logdir}", "--episodes=2", "--envs=2"]) == 0
    assert set(fetched) == {f"{logdir}/config.json", str(damaged), str(newer)}
    assert f"file://{damaged} is damaged: its checksum doesn't match its content" in caplog.text
    assert os.listdir() == ["evaluation.json"]
    written = json.loads(pathlib.Path("evaluation.json").read_text())
    assert (written["logdir"], written["checkpoint"]) == (f"file://{logdir}", f"file://{newer}")


@pytest.mark.parametrize(("command", "place"), [("eval", "e.json"), ("export", "export"), ("play", "play.gif")])
def test_results_are_local(command, place, capsys):
    assert main([command, "--logdir=file:///a/run", f"--output=file:///a/run/{place}"]) == 2
    sentence = f"seed_rl {command}: --output must be a local path, got file:///a/run/{place}\n"
    assert capsys.readouterr().err == sentence
