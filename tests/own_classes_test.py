"""Classes of one's own in place of the library's: optimizers and samplers. `networks/trunk_test` has layers."""

import keras
import numpy as np
import pytest

from seed_rl.buffers.samplers import sampler_class
from seed_rl.experiment.optimizer import Optimizer
from seed_rl.specs import CannotAct


def build(name):
    return Optimizer(name=name, learning_rate=0.5, weight_decay=0.2).build([keras.Variable(np.ones((2, 2)))])


def test_an_optimizer_may_be_any_of_keras():
    optimizer = build("keras.optimizers:SGD")
    assert type(optimizer) is keras.optimizers.SGD
    assert (float(optimizer.learning_rate), optimizer.weight_decay) == (0.5, 0.2)


@pytest.mark.parametrize(
    ("use", "setting", "path", "word"),
    [
        (build, "Optimizer.name", "json:JSONDecoder", "subclass of Optimizer"),
        (build, "Optimizer.name", "json.nothing:Here", "No module named 'json.nothing'"),
        (sampler_class, "Replay.sampler", "json:JSONDecoder", "subclass of Sampler"),
        (lambda name: Optimizer(name=name), "Optimizer.name", "nowhere:X", "no module nowhere"),
    ],
)
def test_a_wrong_class_is_named(use, setting, path, word):
    with pytest.raises((CannotAct, ValueError), match=f"^{setting} = '{path}': .*{word}"):
        use(path)
