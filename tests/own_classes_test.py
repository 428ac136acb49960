"""Classes of one's own in place of the library's: optimizers and samplers. `own_layers_test` has layers."""

import keras
import numpy as np
import pytest

from seed_rl.buffers.samplers import sampler_class
from seed_rl.experiment import Replay
from seed_rl.experiment.optimizer import Optimizer
from seed_rl.specs import CannotAct


def build(name):
    return Optimizer(name=name, learning_rate=0.5, weight_decay=0.2).build([keras.Variable(np.ones((2, 2)))])


def test_an_optimizer_may_be_any_of_keras():
    optimizer = build("keras.optimizers:SGD")
    assert type(optimizer) is keras.optimizers.SGD
    assert (float(optimizer.learning_rate), optimizer.weight_decay) == (0.5, 0.2)


@pytest.mark.parametrize(
    ("use", "setting", "path", "sentence"),
    [
        (build, "Optimizer.name", "json:JSONDecoder", "expected a subclass of Optimizer, but JSONDecoder is something"),
        (build, "Optimizer.name", "json:None_", "expected a subclass of Optimizer, but json has no None_"),
        (build, "Optimizer.name", "json.nothing:Here", "No module named 'json.nothing'"),
        (sampler_class, "Replay.sampler", "json:JSONDecoder", "expected a subclass of Sampler, but JSONDecoder is"),
    ],
)
def test_a_wrong_class_is_named(use, setting, path, sentence):
    with pytest.raises(CannotAct, match=f"^{setting} = '{path}': {sentence}"):
        use(path)


@pytest.mark.parametrize(("settings", "field"), [(Optimizer, "name"), (Replay, "sampler")])
def test_a_wrong_name_is_refused_when_it_is_given(settings, field):
    name = f"{settings.__name__}.{field}"
    with pytest.raises(ValueError, match=f"^{name} must be one of .*, module:Class, got 'none'"):
        settings(**{field: "none"})
    with pytest.raises(ValueError, match=f"^{name} = 'nowhere:X': there is no module nowhere"):
        settings(**{field: "nowhere:X"})
