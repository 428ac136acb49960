import os
from types import SimpleNamespace

import keras
import numpy as np
import pytest

from seed_rl.weights import checkpoints
from seed_rl.weights.checkpoints import CheckpointError, assign, find, load, name_variables

ARRAYS = {"a": np.arange(6, dtype=np.float32).reshape(2, 3), "b/c": np.array(3, np.int64)}


def save(directory, step, **state):
    checkpoints.save(str(directory), step, ARRAYS, {"step": step, **state}, keep=2)


def test_the_newest_are_kept_and_come_back_as_they_were(tmp_path):
    assert checkpoints.newest(str(tmp_path)) is None
    for step in (5, 100, 20, 1000):
        save(tmp_path, step, returns=[1.5])
    (tmp_path / "checkpoint-000000002000.npz.partial").touch()  # of a process that was killed
    assert [load(path)[1]["step"] for path in checkpoints.paths(str(tmp_path))] == [100, 1000]
    path, arrays, state = checkpoints.newest(str(tmp_path))
    assert path == checkpoints.paths(str(tmp_path))[-1]
    assert state == {"step": 1000, "returns": [1.5]}
    assert set(arrays) == set(ARRAYS)
    for name, array in ARRAYS.items():
        np.testing.assert_array_equal(arrays[name], array, strict=True)


def test_counters_in_the_names_of_layers_without_names_dont_matter(tmp_path):
    here, there = ([SimpleNamespace(name=f"net_dense{number}_kernel_m")] for number in ("", "_12"))
    (name,) = name_variables("optimizer/all", here)
    assert list(name_variables("optimizer/all", there)) == [name]
    checkpoints.save(str(tmp_path), 1, {"optimizer/all/000/net_dense_3_kernel_m": np.ones(2)}, {}, keep=1)
    assert list(checkpoints.newest(str(tmp_path))[1]) == [name]


def test_a_file_that_was_cut_off_is_passed_over_with_a_warning_or_is_an_error_if_it_is_the_only_one(tmp_path, caplog):
    for step in (1, 2):
        save(tmp_path, step)
    good, damaged = checkpoints.paths(str(tmp_path))
    os.truncate(damaged, os.path.getsize(damaged) // 2)
    assert checkpoints.newest(str(tmp_path))[0] == good
    assert "000002.npz is damaged" in caplog.text
    checkpoints.save(str(tmp_path), 1, ARRAYS, {"step": 1}, keep=1)
    assert checkpoints.newest(str(tmp_path))[0] == good, "a run that continues from it keeps it"
    os.remove(good)
    caplog.clear()
    with pytest.raises(CheckpointError, match="000002.npz is damaged: its arrays can't be read: "):
        checkpoints.newest(str(tmp_path))
    assert not caplog.records


def test_a_checkpoint_is_found_by_its_name_alone(tmp_path):
    with pytest.raises(
        CheckpointError, match=f"^{tmp_path} is not the log directory of a run: .*/config.json is missi"
    ):
        find(str(tmp_path), None)
    (tmp_path / "config.json").touch()
    folder = tmp_path / "checkpoints"
    folder.mkdir()
    for step in (6, 7):
        save(folder, step)
    for name in ("checkpoint-000000000007.npz", "7", "newest", None):
        assert find(str(tmp_path), name) == f"{folder}/checkpoint-000000000007.npz"
    with pytest.raises(CheckpointError, match="has no best checkpoint: the first is written after 2 evaluation episo"):
        find(str(tmp_path), "best")
    with pytest.raises(CheckpointError, match="000008.npz can't be read: .*: checkpoint-0+6.npz, checkpoint-0+7.npz$"):
        find(str(tmp_path), "8")
    (folder / "best.npz").touch()
    assert find(str(tmp_path), "best") == f"{folder}/best.npz"


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({}, r"lacks \['agent/000/w'\]"),
        ({"agent/000/w": np.zeros(3), "more": np.zeros(1)}, r"has \['more'\]"),
        ({"agent/000/w": np.zeros((3, 1))}, r"agent/000/w has shape \(3, 1\), needed is \(3,\)"),
    ],
)
def test_a_checkpoint_of_another_agent_is_refused(arrays, message):
    variable = keras.Variable(np.zeros(3), name="w")
    with pytest.raises(CheckpointError, match=message):
        assign(name_variables("agent", [variable]), arrays, "file")
    np.testing.assert_array_equal(variable.numpy(), np.zeros(3))
