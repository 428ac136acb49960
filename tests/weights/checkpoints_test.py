import multiprocessing
import os
import signal

import keras
import numpy as np
import pytest

from seed_rl.weights import checkpoints
from seed_rl.weights.checkpoints import CheckpointError, assign, load, name_variables
from tests.support.slow_disk import save_for_ever

ARRAYS = {"a": np.arange(6, dtype=np.float32).reshape(2, 3), "b/c": np.array(3, np.int64)}


def newest_step(directory):
    return checkpoints.newest(directory)[2]["step"]


@pytest.fixture
def directory(tmp_path):
    return str(tmp_path)


def save(directory, step, **state):
    checkpoints.save(directory, step, ARRAYS, {"step": step, **state}, keep=2)


def test_the_newest_are_kept_and_come_back_as_they_were(directory):
    assert checkpoints.newest(directory) is None
    for step in (5, 100, 20, 1000):
        save(directory, step, returns=[1.5])
    assert [load(path)[1]["step"] for path in checkpoints.paths(directory)] == [100, 1000]
    path, arrays, state = checkpoints.newest(directory)
    assert path == checkpoints.paths(directory)[-1]
    assert state == {"step": 1000, "returns": [1.5]}
    assert set(arrays) == set(ARRAYS)
    for name, array in ARRAYS.items():
        np.testing.assert_array_equal(arrays[name], array, strict=True)


def test_a_save_that_fails_leaves_the_previous_checkpoint(directory):
    save(directory, 1)
    with pytest.raises(TypeError):
        save(directory, 2, unknown=object())
    assert newest_step(directory) == 1


def test_killed_in_the_middle_of_a_save_the_previous_one_loads(directory):
    context = multiprocessing.get_context("spawn")
    half_written = context.Event()
    process = context.Process(target=save_for_ever, args=(directory, half_written))
    process.start()
    assert half_written.wait(60)
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    assert any(name.endswith(".partial") for name in os.listdir(directory)), "the second save was under way"
    _, arrays, state = checkpoints.newest(directory)
    assert state == {"step": 1}
    np.testing.assert_array_equal(arrays["x"], np.ones(1000))


@pytest.mark.parametrize("share", [0.0, 0.5])
def test_a_file_that_was_cut_off_is_passed_over_and_named_if_it_is_the_only_one(directory, share):
    for step in (1, 2):
        save(directory, step)
    good, damaged = checkpoints.paths(directory)
    with open(damaged, "r+b") as file:
        file.truncate(int(share * os.path.getsize(damaged)))
    assert newest_step(directory) == 1
    os.remove(good)
    with pytest.raises(CheckpointError, match="000002.npz is damaged: its checksum doesn't match its content"):
        checkpoints.newest(directory)


def test_no_damaged_bit_goes_unnoticed(directory):
    save(directory, 1)
    (path,) = checkpoints.paths(directory)
    with open(path, "rb") as file:
        content = bytearray(file.read())
    with np.load(path) as archive:
        np.testing.assert_array_equal(archive["a"], ARRAYS["a"], err_msg="it is an ordinary .npz file, too")
    for byte in range(len(content)):
        bit = 1 << byte % 8
        content[byte] ^= bit
        with open(path, "wb") as file:
            file.write(content)
        with pytest.raises(CheckpointError, match="is damaged"):
            load(path)
        content[byte] ^= bit


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
