"""Mistakes in a custom torso or core: an error that says what is wrong."""

import pytest

from seed_rl.agents.vtrace import VTrace
from seed_rl.specs import ArraySpec, CannotAct, DiscreteSpec, EnvSpec

OWN = """
import keras

class Wrong(keras.layers.Layer):
    def __init__(self, units, dtype, name, kernel_initializer=None):
        super().__init__(dtype=dtype, name=name)
    def initial_state(self, batch_size):
        return ()

class Misshapen(Wrong):
    def call(self, frames):
        return frames

class NoTensor(Wrong):
    def call(self, frames, *more):
        return (None, ()) if more else None
"""
CLASS = "expected a subclass of Layer, but "


@pytest.mark.parametrize(
    ("role", "path", "sentence"),
    [
        ("torso", "my_layers:Missing", f"{CLASS}my_layers has no Missing$"),
        ("torso", "json:JSONDecoder", f"{CLASS}JSONDecoder is something else$"),
        ("torso", "my_layers:Misshapen", r"its features must have the shape \[1, F\], got the shape \[1, 10, 5, 1\]"),
        ("core", "my_layers:NoTensor", r"its features must have the shape \[1, 1, F\], got NoneType"),
    ],
)
def test_a_mistake_gets_a_sentence(role, path, sentence, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "my_layers.py").write_text(OWN)
    config = VTrace(**{role: path}, frame_stack=1)
    with pytest.raises(CannotAct, match=f"^VTrace.{role} = '{path}': {sentence}"):
        config.build(EnvSpec(ArraySpec((10, 5, 1), "uint8"), DiscreteSpec(3)), 1, seed=1)
