"""Settings and files of the user's machine that must not reach into a run."""

import os
import subprocess
import sys
import types
from unittest import mock

import keras
import pytest

from seed_rl.system import children, native_output


def test_settings_of_keras_are_not_the_machines(monkeypatch):
    """As ~/.keras/keras.json and the environment may have them."""
    monkeypatch.setenv("KERAS_BACKEND", "torch")
    keras.config.set_image_data_format("channels_first")
    keras.config.set_floatx("float16")
    keras.config.set_epsilon(0.1)
    native_output.load_tensorflow()
    assert os.environ["KERAS_BACKEND"] == keras.backend.backend() == "tensorflow"
    assert (keras.config.floatx(), keras.config.epsilon()) == ("float32", 1e-7)
    assert keras.layers.Conv2D(1, 1).data_format == "channels_last"


def test_libraries_that_cannot_be_used_are_a_sentence(monkeypatch):
    keras = types.SimpleNamespace(backend=types.SimpleNamespace(backend=lambda: "torch"))
    broken = mock.Mock(side_effect=ValueError("numpy.dtype size changed,\nmay indicate binary incompatibility"))
    for import_module, sentence in (
        (lambda name: keras, "Keras was imported before with backend torch, and needs"),
        (broken, "TensorFlow can't be loaded: ValueError: numpy.dtype size"),
    ):
        monkeypatch.setattr(native_output.importlib, "import_module", import_module)
        with pytest.raises(native_output.CannotLoad, match=sentence):
            native_output.load_tensorflow()


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
