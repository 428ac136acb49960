import multiprocessing
import os
import signal

import keras
import numpy as np
import pytest

from seed_rl.learner.checkpoints import CheckpointError, Checkpoints, assign, load, name_variables
from tests.support.slow_disk import save_for_ever

ARRAYS = {"a": np.arange(6, dtype=np.float32).reshape(2, 3), "b/c": np.array(3, np.int64)}


def test_round_trip(tmp_path):
    checkpoints = Checkpoints(str(tmp_path), keep=2)
    assert checkpoints.load_latest() is None
    saved = checkpoints.save(7, ARRAYS, {"env_frames": 70, "episodes": {"returns": [1.5]}})
    path, arrays, counters = checkpoints.load_latest()
    assert path == saved
    assert counters == {"env_frames": 70, "episodes": {"returns": [1.5]}}
    assert set(arrays) == set(ARRAYS)
    for name, array in ARRAYS.items():
        np.testing.assert_array_equal(arrays[name], array)
        assert arrays[name].dtype == array.dtype


def test_keeps_the_newest(tmp_path):
    checkpoints = Checkpoints(str(tmp_path), keep=2)
    for step in (5, 100, 20, 1000):
        checkpoints.save(step, ARRAYS, {"step": step})
    assert [load(path)[1]["step"] for path in checkpoints.paths()] == [100, 1000]


def test_a_save_that_fails_leaves_the_previous_checkpoint(tmp_path):
    checkpoints = Checkpoints(str(tmp_path), keep=1)
    checkpoints.save(1, ARRAYS, {})
    with pytest.raises(TypeError):
        checkpoints.save(2, ARRAYS, {"not json": object()})
    assert checkpoints.load_latest()[0].endswith("000001.npz")


def test_killed_in_the_middle_of_a_save_the_previous_one_loads(tmp_path):
    context = multiprocessing.get_context("spawn")
    half_written = context.Event()
    process = context.Process(target=save_for_ever, args=(str(tmp_path), half_written))
    process.start()
    assert half_written.wait(60)
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    assert any(name.endswith(".partial") for name in os.listdir(tmp_path)), "the second save was under way"
    checkpoints = Checkpoints(str(tmp_path), keep=3)
    _, arrays, counters = checkpoints.load_latest()
    assert counters == {"step": 1}
    np.testing.assert_array_equal(arrays["x"], np.ones(1000))
    assert not any(name.endswith(".partial") for name in os.listdir(tmp_path))


@pytest.mark.parametrize("share", [0.0, 0.5])
def test_a_damaged_file_is_passed_over_and_named_if_it_is_the_only_one(tmp_path, share):
    checkpoints = Checkpoints(str(tmp_path), keep=2)
    good = checkpoints.save(1, ARRAYS, {})
    damaged = checkpoints.save(2, ARRAYS, {})
    with open(damaged, "r+b") as file:
        file.truncate(int(share * os.path.getsize(damaged)))
    assert checkpoints.load_latest()[0] == good
    os.remove(good)
    with pytest.raises(CheckpointError, match="000002.npz is not a checkpoint that can be read"):
        checkpoints.load_latest()


def test_variables_get_their_values_back():
    variables = [keras.Variable(np.zeros((2, 3)), name="w"), keras.Variable(1.0, name="w")]
    named = name_variables("agent", variables)
    assert list(named) == ["agent/000/w", "agent/001/w"]
    assign(named, {"agent/000/w": ARRAYS["a"], "agent/001/w": np.array(5.0)}, "file")
    np.testing.assert_array_equal(variables[0].numpy(), ARRAYS["a"])
    assert float(variables[1].numpy()) == 5.0


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
