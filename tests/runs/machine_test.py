"""Settings and files of the user's machine that must not reach into a run."""

import functools
import subprocess
import sys
import types
from unittest import mock

import keras
import numpy as np
import pytest

from seed_rl.agents.vtrace import VTrace
from seed_rl.networks import torsos
from seed_rl.system import children, native_output


@pytest.fixture
def keras_as_another_program_set_it():
    """As ~/.keras/keras.json may have it, too."""
    before = keras.config.image_data_format(), keras.config.floatx()
    keras.config.set_image_data_format("channels_first")
    yield
    keras.config.set_image_data_format(before[0])
    keras.config.set_floatx(before[1])


@pytest.mark.usefixtures("keras_as_another_program_set_it")
def test_the_order_of_dimensions_is_not_the_machines_and_its_float_type_must_be_ours():
    frames = np.arange(2 * 40 * 40 * 3, dtype=np.uint8).reshape(2, 40, 40, 3)
    spectral = functools.partial(torsos.deep_torso, spectral=True)
    for torso in functools.partial(torsos.mlp_torso, scale=1.0), torsos.shallow_torso, spectral:
        outputs = []
        for order in "channels_first", "channels_last":
            keras.config.set_image_data_format(order)
            made = torso(VTrace(dtype="float32"))
            made.build(frames.shape)
            made.set_weights([np.resize([0.1, -0.02, 0.03], each.shape) for each in made.get_weights()])
            outputs.append(made(frames))
        np.testing.assert_array_equal(*outputs)
        assert np.ptp(outputs[0]) > 0
    keras.config.set_floatx("float16")
    with pytest.raises(native_output.CannotLoad, match="Keras is set to float16"):
        native_output.load_tensorflow()


def test_libraries_that_cannot_be_used(monkeypatch):
    keras = types.SimpleNamespace(backend=types.SimpleNamespace(backend=lambda: "torch"))
    broken = mock.Mock(side_effect=ValueError("numpy.dtype size changed,\nmay indicate binary incompatibility"))
    for import_module, word in (lambda name: keras, "backend torch"), (broken, "ValueError: numpy.dtype size"):
        monkeypatch.setattr(native_output.importlib, "import_module", import_module)
        with pytest.raises(native_output.CannotLoad, match=word):
            native_output.load_tensorflow()


FORKS = """
import os, sys
from seed_rl.cli import own_process
from seed_rl.system.native_output import load_tensorflow
own_process.claim()
tensorflow = load_tensorflow()
print(*{"jax", "matplotlib", "cv2", "IPython"} & set(sys.modules), flush=True)
for runs in (False, True):
    if runs:
        tensorflow.constant(1)
    if not (child := os.fork()):
        if not runs:
            tensorflow.constant(1)
        try:
            load_tensorflow()
            print("loaded", flush=True)
        except Exception as error:
            print(error, flush=True)
        os._exit(0)
    os.waitpid(child, 0)
"""


def test_a_process_loads_no_more_than_it_needs_and_one_that_is_forked_after_tensorflow_ran_is_told_so():
    ended = subprocess.run([sys.executable, "-c", FORKS], capture_output=True, text=True, check=True)
    more, before, after = ended.stdout.splitlines()
    assert (more, before) == ("", "loaded")
    assert "spawn it instead" in after


@pytest.mark.parametrize("command", [children.seed_rl(), [sys.executable, "-m", "seed_rl"]], ids=["child", "-m"])
def test_modules_in_the_working_directory_are_not_those_of_the_library(command, tmp_path):
    for name in ("random", "token", "gin", "socket", "queue"):
        (tmp_path / f"{name}.py").write_text("raise ValueError('shadowed')")
    done = subprocess.run([*command, "configs"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "atari/vtrace" in done.stdout


def test_closed_streams_are_no_error(tmp_path):
    command = ["sh", "-c", 'exec "$0" "$@" <&- >&- 2>&-', *children.seed_rl("configs")]
    assert subprocess.run(command, cwd=tmp_path).returncode == 0
