"""The frozen copy of a model against its rule in numpy."""

import keras
import numpy as np
import pytest

from seed_rl.networks.target import TargetNetwork


def model(seed):
    keras.utils.set_random_seed(seed)
    built = keras.Sequential([keras.layers.Dense(3), keras.layers.BatchNormalization()])
    built.build((None, 2))
    return built


def values(network):
    return [variable.numpy().copy() for variable in network.variables]


@pytest.mark.parametrize(("period", "rate"), [(3, 1.0), (2, 0.4)])
def test_it_moves_by_its_rate_every_so_many_updates(period, rate):
    online, rng = model(1), np.random.default_rng(0)
    target = TargetNetwork(online, model(2), period, rate)
    expected = values(online)  # a copy at first, whatever the rate
    for update in range(1, 8):
        for variable in online.variables:
            variable.assign_add(rng.normal(size=variable.shape))
        target.after_update(update)
        if update % period == 0:
            expected = [
                old + rate * (variable.numpy() - old) if variable.trainable and rate < 1 else variable.numpy()
                for variable, old in zip(online.variables, expected, strict=True)
            ]
        for actual, value in zip(values(target.model), expected, strict=True):
            np.testing.assert_allclose(actual, value, *((0, 0) if rate == 1 else (1e-5, 1e-6)))  # a copy is exact
