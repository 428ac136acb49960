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
                old + (rate if variable.trainable else 1.0) * (variable.numpy() - old)
                for variable, old in zip(online.variables, expected, strict=True)
            ]
        for actual, value in zip(values(target.model), expected, strict=True):
            np.testing.assert_allclose(actual, value, rtol=1e-5, atol=1e-6)


def test_a_copy_is_exact():
    online, frozen = model(1), model(2)
    online.variables[0].assign(np.full((2, 3), 1e8 + 1e-8))
    frozen.variables[0].assign(np.full((2, 3), 1e-3))
    TargetNetwork(online, frozen)
    np.testing.assert_array_equal(values(frozen)[0], values(online)[0])
