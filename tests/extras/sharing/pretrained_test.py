"""The pretrained policies in the repository, and how they are found."""

import hashlib
import json
import os
import pathlib
import shutil

import numpy as np
import pytest

from scripts import pretrained as script
from seed_rl.cli.main import main
from seed_rl.evaluation.policy import experiment_of
from seed_rl.experiment import config_files
from seed_rl.extras.sharing import published
from seed_rl.extras.sharing.published import WEIGHTS, read
from seed_rl.weights.checkpoints import CheckpointError
from seed_rl.weights.warm_start import warm_start
from tests.support.full_disk import largest_file


@pytest.mark.parametrize("name", published.names())
def test_a_policy_is_complete_small_and_unchanged(name):
    folder = published.ROOT / name
    for file, most in script.LARGEST.items():
        assert 0 < (folder / file).stat().st_size <= most, file
    arrays, state = read(str(folder / WEIGHTS))
    about = published.about(name)
    assert about["sha256"] == hashlib.sha256((folder / WEIGHTS).read_bytes()).hexdigest()
    assert all(np.isfinite(array).all() for array in arrays.values())
    assert state["counters"]["env_frames"] == about["env_frames"]
    assert (about["episodes"], about["low"] <= about["mean"] <= about["high"]) == (100, True)
    assert type(experiment_of(str(folder)).agent).__name__ == about["agent"]
    assert script.CURVE in (folder / "README.md").read_text(encoding="utf-8")


def test_a_pretrained_policy_plays_and_starts_a_run_by_its_name(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    experiment = config_files.load(["catch/vtrace"], ["Experiment.init_from = 'catch'"])
    assert "all weights of catch/checkpoints/" in warm_start(experiment.build_agent(), experiment)
    assert main(["eval", "--logdir=catch", "--greedy", "--episodes=16", "--at_least=0.9"]) == 0
    evaluated = json.loads((tmp_path / "evaluation.json").read_text())  # not in the repository
    assert (evaluated["logdir"], evaluated["checkpoint"]) == ("catch", "checkpoint-000000000000.npz")
    assert main(["eval", "--logdir=cacth"]) == 2
    assert "Did you mean 'catch'?" in capsys.readouterr().err
    assert published.opened("runs/catch/best", None) is published.opened("gs://bucket/catch", None) is None
    assert main(["pretrained"]) == 0
    assert "\ncatch " in f"\n{capsys.readouterr().out}"


def weights(header, content=b"\0\0\x80\x3f\0\0\0\x40"):
    """A file of weights with any header."""
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + content


def entry(**changes):
    return {"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8], **changes}}


@pytest.mark.parametrize(
    "content",
    [
        *(b"", weights([]), weights(entry())[:-1], weights(entry(dtype="F8_E4M3", shape=[8]))),
        *(weights(entry(shape=shape, data_offsets=[0, 0]), b"") for shape in ([0, 2**62], [2**62, 0, 4])),
    ],
)
def test_damaged_weights_are_refused(tmp_path, content):
    (tmp_path / WEIGHTS).write_bytes(content)
    with pytest.raises(CheckpointError, match="is not a usable safetensors file: "):
        read(str(tmp_path / WEIGHTS))


@pytest.mark.parametrize("name", ["config.json", "policy.json"])
def test_a_link_to_a_device_and_a_hole_in_a_strangers_folder_are_not_copied(tmp_path, monkeypatch, name):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    folder = tmp_path / "policy"
    shutil.copytree(published.ROOT / "catch", folder)
    (folder / name).unlink()
    (folder / name).symlink_to("/dev/zero")
    with largest_file(1 << 24), published.opened(str(folder), None) as logdir:
        assert not (pathlib.Path(logdir) / name).exists()
    (folder / name).unlink()
    (folder / name).touch()
    os.truncate(folder / name, 100 << 30)
    too_long = rf"{name} in .*policy can't be read: expected at most 1,048,576 bytes, got more"
    with largest_file(1 << 24), pytest.raises(CheckpointError, match=too_long), published.opened(str(folder), None):
        pass
