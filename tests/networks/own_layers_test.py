"""Mistakes in a custom torso or core: one sentence that says where."""

import pytest

from seed_rl.experiment import ConfigError, config_files
from seed_rl.specs import CannotAct

OWN = """
import keras
import numpy as np

class TakesNothing(keras.layers.Layer):
    def __init__(self):
        super().__init__()

class Wrong(keras.layers.Layer):
    def __init__(self, units, dtype, name, kernel_initializer=None):
        super().__init__(dtype=dtype, name=name)
    def initial_state(self, batch_size):
        return ()

class Fails(Wrong):
    def call(self, frames, *more):
        return frames / undefined

class Misshapen(Wrong):
    def call(self, frames, *more):
        return (frames, ()) if more else frames

class NoTensor(Wrong):
    def call(self, frames, *more):
        return (None, ()) if more else None
"""


@pytest.mark.parametrize("role", ["torso", "core"])
@pytest.mark.parametrize(
    ("path", "sentence"),
    [
        ("own_layers_of_mine:Missing", "expected the class of a Keras layer, but own_layers_of_mine has no Missing$"),
        ("json:JSONDecoder", "expected the class of a Keras layer, but JSONDecoder is something else$"),
        ("does_not_parse:Layer", r"SyntaxError: '\(' was never closed \(.*does_not_parse.py, line 1\)$"),
        ("own_layers_of_mine:TakesNothing", "TypeError: .*got an unexpected keyword argument 'units'$"),
        ("own_layers_of_mine:Fails", r"NameError: .*'undefined' is not defined \(.*own_layers_of_mine.py, line 17\)$"),
        ("own_layers_of_mine:NoTensor", r"ValueError: its features must have the shape \[1.*, F\], got NoneType$"),
    ],
)
def test_a_mistake_gets_a_sentence_with_its_place(role, path, sentence, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "own_layers_of_mine.py").write_text(OWN)
    (tmp_path / "does_not_parse.py").write_text("class Layer(\n")
    experiment = config_files.load("catch/vtrace", f"VTrace.{role} = {path!r}")
    with pytest.raises(CannotAct, match=f"^VTrace.{role} = '{path}': {sentence}"):
        experiment.build_agent()


def test_features_of_another_shape_are_refused(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "own_layers_of_mine.py").write_text(OWN)
    experiment = config_files.load("catch/vtrace", "VTrace.torso = own_layers_of_mine:Misshapen")
    with pytest.raises(CannotAct, match=r"features must have the shape \[1, F\], got the shape \[1, 10, 5, 1\]$"):
        experiment.build_agent()


def test_the_name_of_a_layer_has_a_colon():
    with pytest.raises(ConfigError, match="VTrace.torso must be one of auto, shallow, deep, mlp, module:Class"):
        config_files.load("catch/vtrace", "VTrace.torso = 'my_layers'")
